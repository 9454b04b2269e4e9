#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "bench/byte_stream.grpc.pb.h"
#include "bench/carrier.h"
#include "bench/payload.h"
#include "bench/timing.h"

namespace memlease::bench {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// Lends the one stream that comes to whoever reads it, until told that no more is read.
class Stream : public ByteStream::Service {
 public:
  grpc::Status Send(grpc::ServerContext*, grpc::ServerReader<Chunk>* reader, Done*) override {
    reader_.set_value(reader);
    ended_.get_future().wait();
    return grpc::Status::OK;
  }
  grpc::ServerReader<Chunk>* wait() { return reader_.get_future().get(); }
  void end() { ended_.set_value(); }

 private:
  std::promise<grpc::ServerReader<Chunk>*> reader_;
  std::promise<void> ended_;
};

class GrpcCarrier : public Carrier {
 public:
  GrpcCarrier(std::string socket, std::size_t words)
      : address_("unix:" + std::move(socket)), words_(words) {}

  void begin_sending(const Options&) override {
    // Who comes before the server is made to wait for a second.
    while (access(address_.c_str() + std::strlen("unix:"), F_OK) != 0) usleep(1000);
    const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    stub_ = ByteStream::NewStub(channel);
    context_.set_wait_for_ready(true);
    writer_ = stub_->Send(&context_, &done_);
    writer_->WaitForInitialMetadata();
    payload_.resize(words_);
  }
  void begin_receiving(const Options&) override {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&stream_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    require(server_ != nullptr, "bench: a gRPC server");
    reader_ = stream_.wait();
    reader_->SendInitialMetadata();
  }
  Words prepare() override { return payload_; }
  void send() override {
    const auto* bytes = reinterpret_cast<const char*>(payload_.data());
    for (std::size_t done = 0; done < words_ * 8; done += kChunkBytes) {
      chunk_.set_data(bytes + done, std::min(kChunkBytes, words_ * 8 - done));
      require(writer_->Write(chunk_), "bench: writing to a gRPC stream");
    }
  }
  Received receive(Use use) override {
    Received received{};
    for (std::size_t done = 0; done < words_ * 8; done += chunk_.data().size()) {
      require(reader_->Read(&chunk_), "bench: reading from a gRPC stream");
      received.value = use == Use::kSum ? received.value + sum_of(chunk_) : first_of(chunk_);
    }
    received.got_ticks = received.ended_ticks = ticks();
    return received;
  }
  void end() override {
    if (writer_) {
      writer_->WritesDone();
      writer_->Finish();
    } else {
      stream_.end();
      server_->Shutdown();
    }
  }

 private:
  static std::uint64_t first_of(const Chunk& chunk) {
    std::uint64_t word = 0;
    std::memcpy(&word, chunk.data().data(), sizeof word);
    return word;
  }
  // The allocator aligns a string's bytes.
  static std::uint64_t sum_of(const Chunk& chunk) {
    return sum(
        {reinterpret_cast<const std::uint64_t*>(chunk.data().data()), chunk.data().size() / 8});
  }

  const std::string address_;
  const std::size_t words_;
  Chunk chunk_;
  // The sender's.
  std::unique_ptr<ByteStream::Stub> stub_;
  grpc::ClientContext context_;
  Done done_;
  std::unique_ptr<grpc::ClientWriter<Chunk>> writer_;
  std::vector<std::uint64_t> payload_;
  // The receiver's.
  Stream stream_;
  std::unique_ptr<grpc::Server> server_;
  grpc::ServerReader<Chunk>* reader_ = nullptr;
};

}  // namespace

std::unique_ptr<Carrier> grpc_carrier(const std::string& socket, std::size_t words) {
  return std::make_unique<GrpcCarrier>(socket, words);
}

}  // namespace memlease::bench

#include "server/scrape/http_endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "fmt/format.h"

namespace memlease::server {
namespace {

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     std::string_view more = "") {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
      status, type, body.size(), more, body);
}

std::string refusal(std::string_view status, std::string_view why, std::string_view more = "") {
  return response(status, "text/plain; charset=utf-8", why, more);
}

// Up to the separator, which goes, too.
std::string_view take_word(std::string_view& line, char separator) {
  const std::size_t end = line.find(separator);
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

bool is_complete(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos ||
         request.find("\n\n") != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::start(EventLoop& loop,
                                                                  wire::UniqueFd listener,
                                                                  Page page) {
  return start(loop, std::move(listener), std::move(page), Limits());
}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::start(EventLoop& loop,
                                                                  wire::UniqueFd listener,
                                                                  Page page, const Limits& limits) {
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(loop, std::move(page), limits));
  auto acceptor = Acceptor::start(
      &loop, std::move(listener),
      [self = endpoint.get()](ClientSocket fd) { self->on_connection(std::move(fd)); },
      [](const ClientSocket& /*closed*/) {});  // closed: who scrapes comes again
  if (!acceptor.ok()) return acceptor.status();
  endpoint->acceptor_ = *std::move(acceptor);
  return endpoint;
}

HttpEndpoint::HttpEndpoint(EventLoop& loop, Page page, const Limits& limits)
    : loop_(loop), make_page_(std::move(page)), limits_(limits) {}

HttpEndpoint::~HttpEndpoint() {
  acceptor_.reset();
  while (!connections_.empty()) close(connections_.begin()->first);
}

void HttpEndpoint::on_connection(ClientSocket fd) {
  if (connections_.size() >= limits_.connections) close(connections_.begin()->first);
  const Id id = ++last_id_;
  if (!loop_.add(fd.get(), EPOLLIN, [this, id](std::uint32_t) { on_event(id); }).ok()) return;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  connection.end = loop_.after(limits_.connection, [this, id] { close(id); });
}

void HttpEndpoint::on_event(Id id) {
  Connection& connection = connections_.at(id);
  if (!receive(connection) || !send(connection)) close(id);
}

// What comes behind a request is read and thrown away: with that unread, closing would cut off the
// answer.
bool HttpEndpoint::receive(Connection& connection) {
  std::array<char, 4096> bytes;
  const ssize_t count = connection.fd.receive(bytes);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  connection.received += static_cast<std::size_t>(count);
  if (connection.received > 2 * limits_.request_bytes) return false;
  if (!connection.response.empty()) return true;
  connection.request.append(bytes.data(), static_cast<std::size_t>(count));
  if (is_complete(connection.request)) {
    connection.response = response_to(connection.request);
  } else if (connection.request.size() >= limits_.request_bytes) {
    connection.response =
        refusal("431 Request Header Fields Too Large", "the request is too long\n");
  }
  return true;
}

// After the last byte the peer sees the end; when it has closed, too, so do we.
bool HttpEndpoint::send(Connection& connection) {
  while (connection.sent < connection.response.size()) {
    const std::string_view rest = std::string_view(connection.response).substr(connection.sent);
    const ssize_t count = ::send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno != EAGAIN) return errno == EINTR;
      loop_.modify(connection.fd.get(), EPOLLIN | EPOLLOUT);
      return true;
    }
    connection.sent += static_cast<std::size_t>(count);
    if (connection.sent == connection.response.size()) {
      loop_.modify(connection.fd.get(), EPOLLIN);
      ::shutdown(connection.fd.get(), SHUT_WR);
    }
  }
  return true;
}

void HttpEndpoint::close(Id id) {
  const auto found = connections_.find(id);
  loop_.remove(found->second.fd.get());
  loop_.cancel(found->second.end);
  connections_.erase(found);
}

std::string HttpEndpoint::response_to(std::string_view request) {
  std::string_view line = take_word(request, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::string_view method = take_word(line, ' ');
  std::string_view target = take_word(line, ' ');
  if (!line.starts_with("HTTP/1.")) return refusal("400 Bad Request", "this is not HTTP/1.1\n");
  if (method != "GET" && method != "HEAD") {
    return refusal("405 Method Not Allowed", "GET is all there is\n", "Allow: GET, HEAD\r\n");
  }
  if (take_word(target, '?') != "/metrics") {
    return refusal("404 Not Found", "the metrics are at /metrics\n");
  }
  std::string answer = response("200 OK", "text/plain; version=0.0.4; charset=utf-8", page());
  if (method == "HEAD") answer.resize(answer.size() - page_.size());
  return answer;
}

const std::string& HttpEndpoint::page() {
  const auto now = EventLoop::Clock::now();
  if (page_.empty() || now - page_made_ > limits_.fresh) {
    page_ = make_page_();
    page_made_ = now;
  }
  return page_;
}

}  // namespace memlease::server

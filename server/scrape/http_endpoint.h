// One page over HTTP/1.1, for whoever scrapes metrics: GET /metrics, one request a connection. As
// much of HTTP as that takes, on the daemon's own loop: no thread waits for a peer, and without one
// nothing wakes up. docs/decisions/0025-metrics-by-hand.md says why it is no library's.
//
// The peer is untrusted: on a port it is any process of this machine. It has a few connections for
// a few seconds, sends a few bytes, and however often it asks the page is made once a second at
// most.
//
// Belongs to the loop's thread, or to any thread while the loop does not run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/loop/acceptor.h"
#include "server/loop/event_loop.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class HttpEndpoint {
 public:
  struct Limits {
    std::size_t connections = 8;  // one more ends the oldest
    std::size_t request_bytes = 8192;
    std::chrono::milliseconds connection{5000};
    std::chrono::milliseconds fresh{1000};  // a page that is no older is given again
  };
  // Called on the loop's thread. In the text format of Prometheus.
  using Page = std::function<std::string()>;

  // `listener` listens already; the loop outlives this.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> start(EventLoop& loop,
                                                             wire::UniqueFd listener, Page page);
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> start(EventLoop& loop,
                                                             wire::UniqueFd listener, Page page,
                                                             const Limits& limits);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  std::size_t connections() const { return connections_.size(); }

 private:
  using Id = std::uint64_t;  // never reused; the oldest is the smallest
  struct Connection {
    ClientSocket fd;
    EventLoop::TimerId end;
    std::string request;
    std::size_t received = 0;  // with what came behind the request
    std::string response;      // empty: the request is not complete
    std::size_t sent = 0;
  };

  HttpEndpoint(EventLoop& loop, Page page, const Limits& limits);
  void on_connection(ClientSocket fd);
  void on_event(Id id);
  // False: the connection is over.
  bool receive(Connection& connection);
  bool send(Connection& connection);
  void close(Id id);
  std::string response_to(std::string_view request);
  const std::string& page();

  EventLoop& loop_;
  const Page make_page_;
  const Limits limits_;

  Id last_id_ = 0;
  std::map<Id, Connection> connections_;
  std::string page_;
  EventLoop::Clock::time_point page_made_;  // epoch: never
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace memlease::server

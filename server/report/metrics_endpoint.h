// Serves the metrics where the settings say so.
#pragma once

#include <memory>

#include "server/config/config.h"
#include "server/config/directory.h"
#include "server/loop/event_loop.h"
#include "server/scrape/http_endpoint.h"
#include "server/telemetry/log.h"

namespace memlease::server {

// nullptr if they are not to be served, or cannot be: then the log says why, and the daemon goes on
// without. All outlive it.
std::unique_ptr<HttpEndpoint> serve_metrics(const Config& config, Directory& directory,
                                            EventLoop& loop, Log& log, HttpEndpoint::Page page);

}  // namespace memlease::server

// Reports of the core as messages.
#pragma once

#include "memlease/v1/admin.pb.h"
#include "memlease/v1/control.pb.h"
#include "server/core/report.h"

namespace memlease::server {

void add_holders(const Broker& broker, const Array& array, v1::HoldersReply& reply);
void fill(const Broker& broker, const Array& array, v1::ArrayInfo& info);
// Without bytes_created.
void fill(const Session& session, v1::SessionInfo& info);
// Of the arrays that the viewer may see: the part that is asked for, in turns between which others
// have the core. True: there is more of it.
struct SamplePart {
  std::size_t sampled = 0;
  std::size_t looks = 0;
};
bool fill(const Broker& broker, const v1::SampleRequest& request, const PeerIdentity& viewer,
          SamplePart& part, v1::SampleReply& reply);
// Of so many events after that number, those that the viewer may see. Adds to the reply.
void fill(const History& history, std::uint64_t after, const PeerIdentity& viewer,
          std::size_t at_most, v1::HistoryReply& reply);

}  // namespace memlease::server

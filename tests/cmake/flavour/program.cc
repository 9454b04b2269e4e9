#include <cstdio>
#include <string>

// grpcpp/grpcpp.h takes seconds.
namespace grpc {
std::string Version();
}

int main() { std::puts(grpc::Version().c_str()); }

#pragma once

#include <string>

#include "shared_memory/futex.h"
#include "shared_memory/segment.h"

namespace tf_collectives {

/// Message sockets (SOCK_SEQPACKET) in the abstract namespace. Errors are negative errno values; 0 is success.
int ListenAbstract(const std::string& name, int backlog, FileDescriptor* listener);
int ConnectAbstract(const std::string& name, FileDescriptor* socket);
int AcceptUntil(const FileDescriptor& listener, const Deadline& deadline, FileDescriptor* socket);

/// Sends one message, with a descriptor if `passed` isn't -1.
int SendMessage(const FileDescriptor& socket, const std::string& message, int passed = -1);
/// Receives one message; -ETIMEDOUT after the deadline, -ECONNRESET when the other side has closed.
int ReceiveMessage(const FileDescriptor& socket, const Deadline& deadline, std::string* message,
                   FileDescriptor* passed = nullptr);

/// Process id of the other side, or 0; -EPERM if it belongs to another user.
int PeerProcess(const FileDescriptor& socket);
/// A descriptor that becomes readable when the process ends; invalid where the kernel has none.
FileDescriptor OpenProcess(int pid);

}  // namespace tf_collectives

#include "bootstrap/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tf_collectives {
namespace {

constexpr size_t kMessageLimit = 64 << 10;

sockaddr_un AbstractAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t used = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), used);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used);
  return address;
}

int WaitReadable(const FileDescriptor& descriptor, const Deadline& deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
    }
    pollfd entry{descriptor.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, timeout);
    if (ready > 0) return 0;
    if (ready == 0) return -ETIMEDOUT;
    if (errno != EINTR) return -errno;
  }
}

}  // namespace

int ListenAbstract(const std::string& name, int backlog, FileDescriptor* listener) {
  *listener = FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener->valid()) return -errno;
  socklen_t length;
  const sockaddr_un address = AbstractAddress(name, &length);
  if (bind(listener->get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return -errno;
  return listen(listener->get(), backlog) == 0 ? 0 : -errno;
}

int ConnectAbstract(const std::string& name, FileDescriptor* result) {
  FileDescriptor connected(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connected.valid()) return -errno;
  socklen_t length;
  const sockaddr_un address = AbstractAddress(name, &length);
  if (connect(connected.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return -errno;
  *result = std::move(connected);
  return 0;
}

int AcceptUntil(const FileDescriptor& listener, const Deadline& deadline, FileDescriptor* result) {
  const int error = WaitReadable(listener, deadline);
  if (error != 0) return error;
  *result = FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return result->valid() ? 0 : -errno;
}

int SendMessage(const FileDescriptor& socket, const std::string& message, int passed) {
  iovec part{const_cast<char*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(entry), &passed, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : 0;
}

int ReceiveMessage(const FileDescriptor& socket, const Deadline& deadline, std::string* message,
                   FileDescriptor* passed) {
  const int error = WaitReadable(socket, deadline);
  if (error != 0) return error;
  message->resize(kMessageLimit);
  iovec part{message->data(), message->size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received <= 0) return received == 0 ? -ECONNRESET : -errno;
  message->resize(static_cast<size_t>(received));
  const cmsghdr* entry = CMSG_FIRSTHDR(&header);
  if (entry != nullptr && entry->cmsg_type == SCM_RIGHTS) {
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(entry), sizeof(int));
    FileDescriptor owned(descriptor);
    if (passed != nullptr) *passed = std::move(owned);
  }
  return 0;
}

int PeerProcess(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return 0;
  return credentials.uid == geteuid() ? credentials.pid : -EPERM;
}

FileDescriptor OpenProcess(int pid) {
#ifdef SYS_pidfd_open
  if (pid > 0) return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
#endif
  return {};
}

}  // namespace tf_collectives

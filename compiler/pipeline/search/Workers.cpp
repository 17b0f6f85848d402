//===- Workers.cpp - Processes that measure ahead --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Workers.h"

#include "llvm/ADT/STLExtras.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tw;
using namespace tw::pipeline;

namespace {
/// All of `bytes`; false if the other side is gone.
bool sendAll(int socket, const void *bytes, size_t size) {
  for (const char *from = static_cast<const char *>(bytes), *end = from + size; from != end;)
    if (ssize_t sent = ::send(socket, from, size_t(end - from), MSG_NOSIGNAL); sent >= 0)
      from += sent;
    else if (errno != EINTR)
      return false;
  return true;
}

bool receiveAll(int socket, void *bytes, size_t size) {
  for (char *to = static_cast<char *>(bytes), *end = to + size; to != end;)
    if (ssize_t received = recv(socket, to, size_t(end - to), 0); received > 0)
      to += received;
    else if (received == 0 || errno != EINTR)
      return false;
  return true;
}

/// Messages are bytes of this machine behind their number.
template <typename Container> bool sendMessage(int socket, const Container &items) {
  const uint64_t size = items.size();
  return sendAll(socket, &size, sizeof size) && sendAll(socket, items.data(), size * sizeof(*items.data()));
}

template <typename Container> bool receiveMessage(int socket, Container &items) {
  uint64_t size;
  if (!receiveAll(socket, &size, sizeof size))
    return false;
  items.resize(size);
  return receiveAll(socket, items.data(), size * sizeof(*items.data()));
}

bool sendResult(int socket, const std::optional<Measurement> &result) {
  const Measurement measurement = result.value_or(Measurement());
  const std::vector<uint64_t> numbers{result.has_value(), measurement.cycles, measurement.program};
  return sendMessage(socket, numbers) && sendMessage(socket, measurement.layerCycles) &&
         sendMessage(socket, measurement.failure);
}

bool receiveResult(int socket, std::optional<Measurement> &result) {
  Measurement measurement;
  std::vector<uint64_t> numbers;
  if (!receiveMessage(socket, numbers) || !receiveMessage(socket, measurement.layerCycles) ||
      !receiveMessage(socket, measurement.failure))
    return false;
  measurement.cycles = numbers[1];
  measurement.program = numbers[2];
  if (numbers[0])
    result = std::move(measurement);
  return true;
}
} // namespace

/// As many as there can be.
void Workers::start() {
  hasStarted = true;
  while (workers.size() < count) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return;
    const pid_t process = fork();
    if (process == 0) {
      close(ends[0]);
      for (const Worker &other : workers)
        close(other.socket);
      try {
        for (Task task; receiveMessage(ends[1], task) && sendResult(ends[1], work(task));)
          ;
      } catch (...) { // out of memory: as if it had been killed
      }
      _exit(0); // what this process has opened or buffered belongs to the other one
    }
    close(ends[1]);
    if (process < 0) {
      close(ends[0]);
      return;
    }
    workers.push_back({process, ends[0], {}});
  }
}

Workers::~Workers() {
  while (!workers.empty())
    retire(std::prev(workers.end()));
}

void Workers::retire(std::vector<Worker>::iterator worker) {
  close(worker->socket);
  kill(worker->process, SIGKILL); // nobody wants what it is at
  while (waitpid(worker->process, nullptr, 0) < 0 && errno == EINTR)
    ;
  workers.erase(worker);
}

bool Workers::isSent(const Task &task) const {
  return llvm::any_of(workers, [&](const Worker &worker) { return llvm::is_contained(worker.tasks, task); });
}

void Workers::want(const std::vector<Task> &tasks) {
  if (!count)
    return;
  if (!hasStarted && !tasks.empty())
    start();
  receive(/*waits=*/false);
  wanted.clear();
  for (const Task &task : tasks)
    if (!done.count(task) && !isSent(task) && !llvm::is_contained(wanted, task))
      wanted.push_back(task);
  send();
}

/// Hands out what is wanted: more than one task for each only while there are enough for this process as well.
void Workers::send() {
  for (size_t sent = 0; sent < kAhead; ++sent)
    for (size_t i = 0; i < workers.size();) {
      Worker &worker = workers[i];
      if (worker.tasks.size() > sent || wanted.size() <= (sent ? workers.size() : 0)) {
        ++i;
      } else if (sendMessage(worker.socket, wanted.front())) {
        worker.tasks.push_back(std::move(wanted.front()));
        wanted.pop_front();
        ++i;
      } else {
        retire(workers.begin() + long(i));
      }
    }
}

/// Takes the results that are there, or `waits` for one.
void Workers::receive(bool waits) {
  std::vector<pollfd> sockets;
  for (const Worker &worker : workers)
    sockets.push_back({worker.socket, POLLIN, 0});
  while (poll(sockets.data(), sockets.size(), waits ? -1 : 0) < 0 && errno == EINTR)
    ;
  for (size_t i = sockets.size(); i-- > 0;)
    if (sockets[i].revents) {
      Worker &worker = workers[i];
      std::optional<Measurement> result;
      if (!worker.tasks.empty() && receiveResult(worker.socket, result)) {
        done[worker.tasks.front()] = std::move(result);
        worker.tasks.pop_front();
      } else {
        retire(workers.begin() + long(i));
      }
    }
}

std::optional<Measurement> Workers::take(const Task &task) {
  if (!count)
    return std::nullopt;
  while (true) {
    receive(/*waits=*/false);
    send();
    if (auto result = done.find(task); result != done.end())
      return result->second;
    if (!isSent(task)) {
      llvm::erase(wanted, task);
      return std::nullopt;
    }
    if (wanted.empty()) {
      receive(/*waits=*/true);
      continue;
    }
    Task own = std::move(wanted.front());
    wanted.pop_front();
    done[own] = work(own);
  }
}

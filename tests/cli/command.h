// Runs the ebb command as a user does: its own process, arguments without a shell, output in pipes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "paths.h"

namespace ebb::cli {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Finished {
  int code = -1;   // the exit code; -1 after a signal
  int signal = 0;  // that ended it; 0 for none
  std::string out;
  std::string err;
  double seconds = 0;
};

// A running command; killed with the object. For one thread.
class Process {
 public:
  // `in_child` is called in the new process, before the command is (limits, signals, another
  // output).
  explicit Process(const Arguments& arguments, const std::function<void()>& in_child = {},
                   const std::string& program = ebb_command()) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no fork");
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      if (in_child) in_child();
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    pipes_ = {{out[0], &finished_.out}, {err[0], &finished_.err}};
  }

  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    for (const Pipe& pipe : pipes_) ::close(pipe.descriptor);
  }

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return finished_.out; }
  const std::string& err() const { return finished_.err; }

  // Takes in output until the condition holds, which is looked at after every piece and at least
  // every millisecond. False if the command ended before.
  bool run_until(const std::function<bool()>& condition) {
    while (!condition()) {
      if (!take_output()) return condition();
    }
    return true;
  }

  bool run_for(double seconds) {
    return run_until([&] { return this->seconds() >= seconds; });
  }

  void send(int signal) { ::kill(pid_, signal); }

  // As `| head -1` does when it has its line: what the command prints from now on breaks.
  void close_output() {
    ::close(pipes_.front().descriptor);
    pipes_.erase(pipes_.begin());
  }

  // Until the command ends by itself or by a signal sent before.
  Finished wait() {
    while (take_output()) {
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    finished_.seconds = seconds();
    if (WIFEXITED(status)) finished_.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) finished_.signal = WTERMSIG(status);
    return finished_;
  }

  Finished kill() {
    send(SIGKILL);
    return wait();
  }

 private:
  struct Pipe {
    int descriptor;
    std::string* text;
  };

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // Waits a millisecond at most; false when both pipes are at their end.
  bool take_output() {
    std::vector<pollfd> ready;
    for (const Pipe& pipe : pipes_) ready.push_back({pipe.descriptor, POLLIN, 0});
    ::poll(ready.data(), ready.size(), 1);
    for (std::size_t i = ready.size(); i-- > 0;) {
      if (ready[i].revents == 0) continue;
      char piece[4096];
      const ssize_t got = ::read(pipes_[i].descriptor, piece, sizeof piece);
      if (got > 0) {
        pipes_[i].text->append(piece, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        ::close(pipes_[i].descriptor);
        pipes_.erase(pipes_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return !pipes_.empty();
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  pid_t pid_ = -1;
  Finished finished_;
  std::vector<Pipe> pipes_;
};

inline Finished run_ebb(const Arguments& arguments) { return Process(arguments).wait(); }

}  // namespace ebb::cli

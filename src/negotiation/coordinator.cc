#include "negotiation/coordinator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "negotiation/mismatch.h"
#include "text.h"

namespace tf_collectives {
namespace {

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Coordinator::Receive(int rank, const RankMessage& message, Clock::time_point now) {
  decisions_seen_[rank] = message.decisions_seen;
  ForgetRetired();
  if (const auto* announcement = std::get_if<Announcement>(&message.content)) {
    Announced(rank, *announcement, now);
  } else if (const auto* report = std::get_if<FailureReport>(&message.content)) {
    Fail(report->epoch, report->status);
  } else {
    CloseExecution(true);
    decided_.push_back(Departure{rank});
  }
}

void Coordinator::Announced(int rank, const Announcement& announcement, Clock::time_point now) {
  if (announcement.epoch < epoch_) return;
  const RequestPointer request = Expand(rank, announcement);
  NameQueue& queue = queues_[request->name];
  if (queue.entered.empty()) queue.entered.resize(options_.size, 0);
  const size_t index = queue.entered[rank]++;
  if (index == queue.rounds.size()) {
    Round& fresh = queue.rounds.emplace_back();
    fresh.requests.resize(options_.size);
    fresh.cache_ids.resize(options_.size, 0);
    fresh.since = now;
    next_check_ = std::min(next_check_, NextCheckOf(fresh));
    ++waiting_rounds_;
  }
  Round& round = queue.rounds[index];
  const auto other =
      std::find_if(round.requests.begin(), round.requests.end(), [](const RequestPointer& r) { return r != nullptr; });
  // Ranks that announce by one cache id have agreed before.
  const bool agreed = announcement.cache_id != 0 && other != round.requests.end() &&
                      round.cache_ids[other - round.requests.begin()] == announcement.cache_id;
  const bool compatible = agreed || other == round.requests.end() || Compatible(**other, *request);
  round.requests[rank] = request;
  round.cache_ids[rank] = announcement.cache_id;
  if (!compatible) {
    Fail(epoch_ + 1, MismatchError(round.requests));
    return;
  }
  if (++round.arrived < options_.size) return;
  // Rounds of one name complete in order, because every rank enters them in order.
  Round complete = std::move(queue.rounds.front());
  queue.rounds.pop_front();
  --waiting_rounds_;
  for (size_t& entered : queue.entered) --entered;
  const std::string name = request->name;
  if (queue.rounds.empty()) queues_.erase(name);
  Schedule(name, std::move(complete));
}

Coordinator::RequestPointer Coordinator::Expand(int rank, const Announcement& announcement) const {
  if (announcement.cache_id != 0) {
    const auto entry = cache_.find(announcement.cache_id);
    if (entry != cache_.end()) return entry->second.requests[rank];
  }
  auto request = std::make_shared<Request>();
  DecodeRequest(announcement.request, request.get());
  return request;
}

void Coordinator::Schedule(const std::string& name, Round&& round) {
  ScheduledRequest scheduled;
  const uint32_t id = round.cache_ids.front();
  const bool same =
      std::all_of(round.cache_ids.begin(), round.cache_ids.end(), [id](uint32_t other) { return other == id; });
  const auto entry = cache_.find(id);
  // A retired entry has left the list of uses; its ranks forget the id, so it no longer stands for the request.
  scheduled.known = same && entry != cache_.end() && entry->second.use != least_recently_used_.end();
  if (scheduled.known) {
    scheduled.cache_id = id;
    least_recently_used_.splice(least_recently_used_.end(), least_recently_used_, entry->second.use);
  } else {
    scheduled.cache_id = Remember(round);
    scheduled.name = name;
    if (round.requests.front()->kind == CollectiveKind::kAllGather) {
      for (size_t t = 0; t < round.requests.front()->tensors.size(); ++t) {
        std::vector<int64_t>& sizes = scheduled.sizes.emplace_back();
        for (const RequestPointer& request : round.requests) sizes.push_back(request->tensors[t].shape[0]);
      }
    }
  }
  const bool on_gpu = round.requests.front()->device == DeviceKind::kGpu;
  (on_gpu ? ready_on_gpu_ : ready_).push_back(std::move(scheduled));
}

uint32_t Coordinator::Remember(const Round& round) {
  if (options_.cache_capacity <= 0) return 0;
  if (static_cast<int64_t>(least_recently_used_.size()) >= options_.cache_capacity) {
    const uint32_t oldest = least_recently_used_.front();
    cache_.at(oldest).use = least_recently_used_.end();
    least_recently_used_.pop_front();
    evicted_.push_back(oldest);
  }
  const uint32_t id = next_cache_id_++;
  cache_[id] = {round.requests, least_recently_used_.insert(least_recently_used_.end(), id)};
  return id;
}

void Coordinator::ForgetRetired() {
  if (retired_.empty()) return;
  const uint64_t seen_by_all = *std::min_element(decisions_seen_.begin(), decisions_seen_.end());
  while (!retired_.empty() && retired_.front().first <= seen_by_all) {
    cache_.erase(retired_.front().second);
    retired_.pop_front();
  }
}

void Coordinator::Fail(uint32_t epoch, const Status& status) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  queues_.clear();
  waiting_rounds_ = 0;
  // What was ready before the failure still runs, on all ranks alike.
  CloseExecution(true);
  decided_.push_back(Failure{epoch, status});
}

void Coordinator::CloseExecution(bool with_gpu) {
  if (with_gpu) {
    ready_.insert(ready_.end(), std::make_move_iterator(ready_on_gpu_.begin()),
                  std::make_move_iterator(ready_on_gpu_.end()));
    ready_on_gpu_.clear();
  }
  if (ready_.empty()) return;
  for (uint32_t id : evicted_) retired_.emplace_back(decisions_made_ + decided_.size() + 1, id);
  decided_.push_back(Execution{fusion_threshold_, std::move(evicted_), std::move(ready_)});
  evicted_.clear();
  ready_.clear();
}

std::vector<Decision> Coordinator::TakeDecisions() {
  CloseExecution(!gpu_busy_);
  decisions_made_ += decided_.size();
  return std::exchange(decided_, {});
}

Deadline Coordinator::NextCheck() const {
  if (waiting_rounds_ == 0 || next_check_ == Clock::time_point::max()) return std::nullopt;
  return next_check_;
}

Clock::time_point Coordinator::NextCheckOf(const Round& round) const {
  Clock::time_point next = Clock::time_point::max();
  if (options_.timeout.count() > 0) next = round.since + options_.timeout;
  if (options_.stall_warning.count() > 0 && !round.warned) next = std::min(next, round.since + options_.stall_warning);
  return next;
}

std::vector<std::string> Coordinator::CheckWaiting(Clock::time_point now) {
  std::vector<std::string> warnings;
  if (now < next_check_) return warnings;
  next_check_ = Clock::time_point::max();
  for (auto& [name, queue] : queues_) {
    for (Round& round : queue.rounds) {
      if (options_.timeout.count() > 0 && now >= round.since + options_.timeout) {
        Fail(epoch_ + 1, TimeoutError(round));
        return warnings;
      }
      if (options_.stall_warning.count() > 0 && !round.warned && now >= round.since + options_.stall_warning) {
        round.warned = true;
        warnings.push_back(WaitingText(round));
      }
      next_check_ = std::min(next_check_, NextCheckOf(round));
    }
  }
  return warnings;
}

std::string Coordinator::WaitingText(const Round& round) const {
  std::vector<int> present, missing;
  RequestPointer request;
  for (int rank = 0; rank < options_.size; ++rank) {
    (round.requests[rank] ? present : missing).push_back(rank);
    if (round.requests[rank]) request = round.requests[rank];
  }
  return Concat(Title(*request), " (", Describe(*request), ") of ", RankList(present), " waits for ",
                RankList(missing));
}

Status Coordinator::TimeoutError(const Round& round) const {
  return {StatusCode::kDeadlineExceeded,
          Concat(WaitingText(round), " for over ", Seconds(options_.timeout),
                 " s (TFC_TIMEOUT_SECONDS). See what the missing ranks do (a rank that skips a collective, an uneven "
                 "number of steps, "
                 "a long evaluation on one rank); raise TFC_TIMEOUT_SECONDS if they only need longer.")};
}

}  // namespace tf_collectives

#include "negotiation/participant.h"

#include <limits>
#include <utility>

#include "negotiation/mismatch.h"
#include "text.h"

namespace tf_collectives {

uint32_t StepLedger::EpochOf(int64_t step_id, uint32_t current_epoch) {
  const auto [entry, is_new] = epochs_.emplace(step_id, current_epoch);
  if (is_new) {
    order_.push_back(step_id);
    if (order_.size() > kCapacity) {
      epochs_.erase(order_.front());
      order_.pop_front();
    }
  }
  return entry->second;
}

void Participant::Submit(const OperationPointer& operation) {
  Status status;
  bool is_first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    uint32_t epoch = 0;
    status = Admit(*operation, &epoch);
    if (status.ok()) {
      std::string encoded = EncodeRequest(operation->request);
      Announce(epoch, encoded);
      waiting_[operation->request.name].push_back({operation, epoch, std::move(encoded)});
      is_first = waiting_count_++ == 0;
      if (is_first) last_word_ = Clock::now();
    }
  }
  // The runtime's thread may sleep without a deadline, and from now on it must watch for the coordinator's silence.
  if (is_first) carrier_->Wake();
  if (!status.ok()) operation->done(status);
}

Status Participant::Admit(const Operation& operation, uint32_t* epoch) {
  if (!closed_.ok()) return {closed_.code(), Concat(Title(operation.request), ": ", closed_.message())};
  *epoch = ledger_.EpochOf(operation.step_id, epoch_);
  if (*epoch < epoch_) return last_failure_;
  return unmet_.empty() ? Status::Ok() : MeetNext();
}

Status Participant::MeetNext() {
  epoch_ = unmet_.front().epoch;
  last_failure_ = unmet_.front().status;
  unmet_.pop_front();
  return last_failure_;
}

void Participant::Announce(uint32_t epoch, std::string encoded) {
  Announcement announcement;
  announcement.epoch = epoch;
  const auto known = cache_ids_.find(encoded);
  if (known != cache_ids_.end()) {
    announcement.cache_id = known->second;
    ++cache_hits_;
  } else {
    announcement.request = std::move(encoded);
    ++cache_misses_;
  }
  carrier_->Send(0, Encode(RankMessage{decisions_seen_, std::move(announcement)}));
}

void Participant::ReportFailure(int64_t step_id, const Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_.ok()) Originate(ledger_.EpochOf(step_id, epoch_), status);
}

void Participant::FailWaiting(const Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_.ok()) return;
  for (const auto& [name, queue] : waiting_) {
    for (const Waiting& waiting : queue) {
      // What belongs to an earlier epoch is being ended already.
      if (waiting.epoch < epoch_) continue;
      Originate(epoch_, status);
      return;
    }
  }
}

void Participant::Originate(uint32_t epoch, const Status& status) {
  // A step of an earlier epoch: its failure is known already.
  if (epoch < epoch_) return;
  if (!unmet_.empty()) {
    // The others were quicker to fail in this place.
    (void)MeetNext();
    return;
  }
  epoch_ = epoch + 1;
  last_failure_ = status;
  // What waits here ends when the coordinator's answer comes, because some of it may be scheduled already. Until then
  // the peers count on this rank.
  carrier_->Send(0, Encode(RankMessage{decisions_seen_, FailureReport{epoch_, status}}));
}

void Participant::Close(const Status& status) {
  std::vector<OperationPointer> failed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_.ok()) return;
    closed_ = status;
    failed = TakeWaiting(std::numeric_limits<uint32_t>::max());
  }
  for (const OperationPointer& operation : failed) {
    operation->done({status.code(), Concat(Title(operation->request), ": ", status.message())});
  }
}

bool Participant::CloseIfIdle(const Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (waiting_count_ > 0) return false;
  if (closed_.ok()) closed_ = status;
  return true;
}

void Participant::SayFarewell() {
  std::lock_guard<std::mutex> lock(mutex_);
  carrier_->Send(0, Encode(RankMessage{decisions_seen_, Farewell{}}));
}

bool Participant::HasWaiting() {
  std::lock_guard<std::mutex> lock(mutex_);
  return waiting_count_ > 0;
}

Deadline Participant::SilentSince() {
  std::lock_guard<std::mutex> lock(mutex_);
  return waiting_count_ > 0 ? Deadline(last_word_) : std::nullopt;
}

void Participant::HeardFromCoordinator() {
  ++decisions_seen_;
  last_word_ = Clock::now();
}

std::vector<OperationPointer> Participant::TakeWaiting(uint32_t before_epoch) {
  std::vector<OperationPointer> taken;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    std::deque<Waiting> kept;
    for (Waiting& waiting : entry->second) {
      if (waiting.epoch < before_epoch) {
        taken.push_back(std::move(waiting.operation));
      } else {
        kept.push_back(std::move(waiting));
      }
    }
    entry->second = std::move(kept);
    entry = entry->second.empty() ? waiting_.erase(entry) : std::next(entry);
  }
  waiting_count_ -= taken.size();
  return taken;
}

Status Participant::Start(const Execution& execution, std::vector<StartedOperation>* started) {
  std::lock_guard<std::mutex> lock(mutex_);
  HeardFromCoordinator();
  for (const ScheduledRequest& scheduled : execution.requests) {
    const auto remembered = scheduled.known ? remembered_.find(scheduled.cache_id) : remembered_.end();
    const std::string name =
        scheduled.known && remembered != remembered_.end() ? remembered->second.name : scheduled.name;
    const auto queue = waiting_.find(name);
    if (queue == waiting_.end() || (scheduled.known && remembered == remembered_.end())) {
      return {StatusCode::kInternal, Concat("rank ", rank_, " was told to run '", name,
                                            "', which it has not submitted. "
                                            "This is a fault of tf_collectives; please report it.")};
    }
    Waiting waiting = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) waiting_.erase(queue);
    --waiting_count_;
    if (!scheduled.known && scheduled.cache_id != 0) Remember(scheduled, waiting.encoded);
    started->push_back({std::move(waiting.operation), scheduled.known ? remembered->second.sizes : scheduled.sizes});
  }
  for (uint32_t id : execution.evicted) Forget(id);
  return Status::Ok();
}

void Participant::Remember(const ScheduledRequest& scheduled, const std::string& encoded) {
  cache_ids_[encoded] = scheduled.cache_id;
  remembered_[scheduled.cache_id] = {scheduled.name, encoded, scheduled.sizes};
}

void Participant::Forget(uint32_t cache_id) {
  const auto entry = remembered_.find(cache_id);
  if (entry == remembered_.end()) return;
  const auto known = cache_ids_.find(entry->second.encoded);
  if (known != cache_ids_.end() && known->second == cache_id) cache_ids_.erase(known);
  remembered_.erase(entry);
}

void Participant::Apply(const Failure& failure) {
  std::vector<OperationPointer> failed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    HeardFromCoordinator();
    failed = TakeWaiting(failure.epoch);
    if (epoch_ < failure.epoch) unmet_.push_back(failure);
    if (epoch_ < failure.epoch && !failed.empty()) (void)MeetNext();
    if (epoch_ == failure.epoch) last_failure_ = failure.status;
  }
  for (const OperationPointer& operation : failed) operation->done(failure.status);
}

void Participant::Apply(const Departure& departure) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    HeardFromCoordinator();
  }
  if (departure.rank == rank_) return;
  Close({StatusCode::kUnavailable,
         Concat("rank ", departure.rank,
                " has left the job (its program ended or called shutdown()), so collectives "
                "of all ranks can no longer run. Make every rank run the same number of collectives.")});
}

}  // namespace tf_collectives

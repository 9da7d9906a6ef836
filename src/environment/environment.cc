#include "tf_collectives/environment.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "text.h"

namespace tf_collectives {
namespace {

/// Reads variables or describes them, so that both come from the one list in Visit().
class Reader {
 public:
  template <typename Value>
  void Integer(const char* name, const char* group, Value* value, int64_t least, const char* meaning) {
    Describe(name, "integer", group, Concat(*value), meaning);
    const char* text = Text(name);
    if (text == nullptr) return;
    char* end = nullptr;
    errno = 0;
    const long long parsed = std::strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno == ERANGE || parsed < least ||
        parsed > std::numeric_limits<Value>::max()) {
      Reject(name, text, Concat("an integer of at least ", least));
      return;
    }
    *value = static_cast<Value>(parsed);
  }

  void Seconds(const char* name, const char* group, double* value, const char* meaning) {
    Describe(name, "seconds", group, Concat(*value), meaning);
    const char* text = Text(name);
    if (text == nullptr) return;
    char* end = nullptr;
    const double parsed = std::strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !std::isfinite(parsed) || parsed < 0) {
      Reject(name, text, "a number of seconds, not negative");
      return;
    }
    *value = parsed;
  }

  void Word(const char* name, const char* group, std::string* value, const std::vector<std::string>& allowed,
            const char* meaning) {
    std::string choices;
    for (const std::string& word : allowed) choices += (choices.empty() ? "" : "|") + word;
    Describe(name, choices.empty() ? "text" : choices, group, *value, meaning);
    const char* text = Text(name);
    if (text == nullptr) return;
    bool known = allowed.empty();
    for (const std::string& word : allowed) known = known || word == text;
    if (!known) {
      Reject(name, text, "one of " + choices);
      return;
    }
    *value = text;
  }

  void Switch(const char* name, const char* group, bool* value, const char* meaning) {
    int64_t number = *value ? 1 : 0;
    Integer(name, group, &number, 0, meaning);
    *value = number != 0;
  }

  bool describe_only = false;
  std::vector<Environment::Variable> variables;
  Status status;

 private:
  const char* Text(const char* name) const { return describe_only ? nullptr : std::getenv(name); }

  void Describe(const char* name, const std::string& type, const char* group, const std::string& value,
                const char* meaning) {
    variables.push_back({name, type, value, meaning, group});
  }

  void Reject(const char* name, const char* text, const std::string& allowed) {
    if (!status.ok()) return;
    status =
        Status(StatusCode::kInvalidArgument, Concat(name, "='", text, "' is not ", allowed, ". Correct or unset it."));
  }
};

// In the order of the reference page.
void Visit(Reader* reader, Environment* e) {
  reader->Integer("TFC_RANK", "launch", &e->topology.rank, 0, "Number of this process among all of the job.");
  reader->Integer("TFC_SIZE", "launch", &e->topology.size, 1, "Number of processes of the job.");
  reader->Integer("TFC_LOCAL_RANK", "launch", &e->topology.local_rank, 0,
                  "Number of this process among those of its machine.");
  reader->Integer("TFC_LOCAL_SIZE", "launch", &e->topology.local_size, 1, "Number of processes on this machine.");
  reader->Integer("TFC_CROSS_RANK", "launch", &e->topology.cross_rank, 0,
                  "Number of this machine among those of the job.");
  reader->Integer("TFC_CROSS_SIZE", "launch", &e->topology.cross_size, 1, "Number of machines of the job.");
  reader->Word("TFC_JOB_ID", "launch", &e->job_id, {}, "Secret of the job; the ranks meet under it.");
  reader->Seconds("TFC_START_TIMEOUT_SECONDS", "launch", &e->start_timeout_seconds,
                  "How long init() waits for the other ranks.");
  reader->Integer("TFC_FUSION_THRESHOLD", "fusion", &e->fusion_threshold, 0,
                  "Bytes up to which tensors that are ready together are reduced together; 0 switches fusing off.");
  reader->Integer("TFC_CACHE_CAPACITY", "fusion", &e->cache_capacity, 0,
                  "Agreed requests that are remembered, so that a repeated one is announced by its number alone; 0 "
                  "remembers none.");
  reader->Seconds("TFC_STALL_WARNING_SECONDS", "failures", &e->stall_warning_seconds,
                  "After how long a collective that waits for other ranks is reported; 0 never reports.");
  reader->Seconds("TFC_TIMEOUT_SECONDS", "failures", &e->timeout_seconds,
                  "After how long a collective that waits for other ranks fails on all of them; 0 waits for ever.");
  reader->Word("TFC_LOG_LEVEL", "logging", &e->log_level, {"debug", "info", "warning", "error"},
               "The least severe messages that are printed.");
  reader->Integer("TFC_CHUNK_BYTES", "tuning", &e->chunk_bytes, 4096,
                  "Bytes in which large tensors pass through shared memory; rounded up to 4096.");
  reader->Integer("TFC_SPIN_MICROSECONDS", "tuning", &e->spin_microseconds, 0,
                  "How long a thread looks for progress before it sleeps; with more ranks than cores not at all.");
  reader->Integer("TFC_PACK_LIMIT_BYTES", "gpu", &e->pack_limit_bytes, 0,
                  "GPU tensors from this size on are not packed with others, but join the same NCCL group.");
  reader->Switch("TFC_DETERMINISTIC", "gpu", &e->deterministic,
                 "1: only explicit groups travel together, so that results of GPUs don't depend on timing.");
  reader->Switch("NCCL_MULTI_RANK_GPU_ENABLE", "gpu", &e->ranks_share_gpu,
                 "1 (NCCL's own variable, from 2.30 on): several ranks may use one GPU.");
  reader->Integer("TFC_OUTPUT_CACHE_BYTES", "tuning", &e->output_cache_bytes, 0,
                  "Bytes of freed large outputs that are kept, because fresh memory costs as much as a collective.");
}

Status CheckTopology(const Environment& e) {
  const Topology& t = e.topology;
  if (t.rank >= t.size || t.local_rank >= t.local_size || t.cross_rank >= t.cross_size) {
    return {StatusCode::kInvalidArgument,
            Concat("The launch variables contradict each other: rank ", t.rank, " of ", t.size, ", local rank ",
                   t.local_rank, " of ", t.local_size, ", cross rank ", t.cross_rank, " of ", t.cross_size,
                   ". Start the program with tfcrun, or unset all TFC_ variables to run one process.")};
  }
  if (t.size > 1 && t.local_size != t.size) {
    return {StatusCode::kUnimplemented,
            Concat("This job has ", t.size, " ranks of which ", t.local_size,
                   " are on this machine; only jobs on one machine are supported. Start all ranks with one tfcrun.")};
  }
  if (t.size > 1 && e.job_id.empty()) {
    return {StatusCode::kInvalidArgument,
            Concat("TFC_SIZE=", t.size, " without TFC_JOB_ID. Start the program with tfcrun, which sets both.")};
  }
  return Status::Ok();
}

}  // namespace

Status Environment::FromProcess(Environment* environment) {
  Reader reader;
  Visit(&reader, environment);
  TFC_RETURN_IF_ERROR(reader.status);
  environment->chunk_bytes = (environment->chunk_bytes + 4095) / 4096 * 4096;
  return CheckTopology(*environment);
}

std::vector<Environment::Variable> Environment::Describe() {
  Reader reader;
  reader.describe_only = true;
  Environment defaults;
  Visit(&reader, &defaults);
  return reader.variables;
}

}  // namespace tf_collectives

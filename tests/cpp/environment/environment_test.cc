#include "tf_collectives/environment.h"

#include <cstdlib>
#include <set>

#include "testing.h"

namespace tf_collectives {
namespace {

/// Sets a variable for the life of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(NothingSetMeansOneProcess) {
  Environment environment;
  CHECK_OK(Environment::FromProcess(&environment));
  CHECK_EQ(environment.topology.size, 1);
  CHECK_EQ(environment.fusion_threshold, int64_t{128} << 20);
}

TEST(ReadsEveryKindOfValue) {
  const Variable threshold("TFC_FUSION_THRESHOLD", "4096"), timeout("TFC_TIMEOUT_SECONDS", "2.5"),
      level("TFC_LOG_LEVEL", "debug");
  Environment environment;
  CHECK_OK(Environment::FromProcess(&environment));
  CHECK_EQ(environment.fusion_threshold, 4096);
  CHECK_EQ(environment.timeout_seconds, 2.5);
  CHECK_EQ(environment.log_level, "debug");
}

TEST(RejectsWhatIsNoNumber) {
  for (const char* value : {"", "12x", "-1", "99999999999999999999"}) {
    const Variable variable("TFC_FUSION_THRESHOLD", value);
    Environment environment;
    const Status status = Environment::FromProcess(&environment);
    CHECK_EQ(status.code(), StatusCode::kInvalidArgument);
    CHECK_CONTAINS(status.message(), "TFC_FUSION_THRESHOLD");
  }
}

TEST(RejectsAnUnknownWordAndSaysWhichAreKnown) {
  const Variable variable("TFC_LOG_LEVEL", "loud");
  Environment environment;
  CHECK_CONTAINS(Environment::FromProcess(&environment).message(), "debug|info|warning|error");
}

TEST(RejectsARankOutsideTheJob) {
  const Variable rank("TFC_RANK", "2"), size("TFC_SIZE", "2");
  Environment environment;
  CHECK_CONTAINS(Environment::FromProcess(&environment).message(), "rank 2 of 2");
}

TEST(RejectsAJobWithoutId) {
  const Variable size("TFC_SIZE", "2"), local("TFC_LOCAL_SIZE", "2");
  Environment environment;
  CHECK_CONTAINS(Environment::FromProcess(&environment).message(), "TFC_JOB_ID");
}

TEST(ChunksAreWholePages) {
  const Variable chunk("TFC_CHUNK_BYTES", "5000");
  Environment environment;
  CHECK_OK(Environment::FromProcess(&environment));
  CHECK_EQ(environment.chunk_bytes, 8192);
}

TEST(DescribesEachVariableOnce) {
  std::set<std::string> names;
  for (const Environment::Variable& variable : Environment::Describe()) {
    CHECK(names.insert(variable.name).second);
    CHECK(!variable.meaning.empty());
  }
  CHECK_EQ(names.count("TFC_FUSION_THRESHOLD"), size_t{1});
}

}  // namespace
}  // namespace tf_collectives

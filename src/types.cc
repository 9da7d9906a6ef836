#include "tf_collectives/types.h"

#include <array>

#include "tf_collectives/request.h"

namespace tf_collectives {
namespace {

struct DataTypeFacts {
  const char* name;
  size_t bytes;
  bool reducible;
};

// In the order of the enum.
constexpr std::array<DataTypeFacts, 15> kDataTypes = {{
    {"bool", 1, false},
    {"uint8", 1, true},
    {"int8", 1, true},
    {"uint16", 2, false},
    {"int16", 2, false},
    {"uint32", 4, false},
    {"int32", 4, true},
    {"uint64", 8, false},
    {"int64", 8, true},
    {"float16", 2, true},
    {"bfloat16", 2, true},
    {"float32", 4, true},
    {"float64", 8, true},
    {"complex64", 8, false},
    {"complex128", 16, false},
}};
constexpr std::array<const char*, 3> kKinds = {"AllReduce", "AllGather", "Broadcast"};
constexpr std::array<const char*, 5> kReduceOps = {"sum", "average", "min", "max", "product"};

}  // namespace

size_t SizeOf(DataType dtype) { return kDataTypes[static_cast<size_t>(dtype)].bytes; }
const char* NameOf(DataType dtype) { return kDataTypes[static_cast<size_t>(dtype)].name; }
const char* NameOf(CollectiveKind kind) { return kKinds[static_cast<size_t>(kind)]; }
const char* NameOf(ReduceOp op) { return kReduceOps[static_cast<size_t>(op)]; }
const char* NameOf(DeviceKind device) { return device == DeviceKind::kGpu ? "GPU" : "CPU"; }
bool IsReducible(DataType dtype) { return kDataTypes[static_cast<size_t>(dtype)].reducible; }

bool ParseDataType(const std::string& name, DataType* dtype) {
  for (size_t i = 0; i < kDataTypes.size(); ++i) {
    if (name == kDataTypes[i].name) {
      *dtype = static_cast<DataType>(i);
      return true;
    }
  }
  return false;
}

bool ParseReduceOp(const std::string& name, ReduceOp* op) {
  for (size_t i = 0; i < kReduceOps.size(); ++i) {
    if (name == kReduceOps[i]) {
      *op = static_cast<ReduceOp>(i);
      return true;
    }
  }
  return false;
}

int64_t TensorSpec::elements() const {
  int64_t product = 1;
  for (int64_t dimension : shape) product *= dimension;
  return product;
}

}  // namespace tf_collectives

#include "negotiation/mismatch.h"

#include <algorithm>
#include <functional>

#include "text.h"

namespace tf_collectives {
namespace {

std::string ShapeText(const TensorSpec& tensor) {
  std::string text = "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  return text + "]";
}

/// What counts for matching: in an all-gather the first dimension may differ.
std::vector<int64_t> FixedDimensions(const Request& request, const TensorSpec& tensor) {
  const bool first_is_free = request.kind == CollectiveKind::kAllGather && !tensor.shape.empty();
  return {tensor.shape.begin() + (first_is_free ? 1 : 0), tensor.shape.end()};
}

using Predicate = std::function<bool(const Request&, const Request&)>;

template <typename Projection>
Predicate EachTensor(const Projection& projection) {
  return [projection](const Request& a, const Request& b) {
    return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                      [&](const TensorSpec& x, const TensorSpec& y) { return projection(a, x) == projection(b, y); });
  };
}

/// One way in which requests can differ: how to see it, its name, the rule and the next step.
struct Aspect {
  const char* name;
  Predicate agree;
  const char* advice;
};

const std::vector<Aspect>& Aspects() {
  static const auto* aspects = new std::vector<Aspect>{
      {"collective", [](const Request& a, const Request& b) { return a.kind == b.kind; },
       "Every rank must call the same collective under one name (unnamed eager calls match in the order in which they "
       "are made). "
       "Check that all ranks run the same code; give calls a name."},
      {"device", [](const Request& a, const Request& b) { return a.device == b.device; },
       "Every rank must pass tensors on the same kind of device. Check that all ranks see a GPU, and for tf.device on "
       "some ranks only."},
      {"number of tensors", [](const Request& a, const Request& b) { return a.tensors.size() == b.tensors.size(); },
       "Every rank must pass as many tensors to a group. Check that all ranks build the same model."},
      {"dtype", EachTensor([](const Request&, const TensorSpec& tensor) { return tensor.dtype; }),
       "Every rank must pass tensors of one dtype. Check for a cast or a mixed-precision policy on some ranks only."},
      {"shape", EachTensor(FixedDimensions),
       "Every rank must pass tensors of one shape (in an all-gather the first dimension may differ). Check that all "
       "ranks build "
       "the same model; use allgather for unequal first dimensions."},
      {"reduce operation", [](const Request& a, const Request& b) { return a.reduce_op == b.reduce_op; },
       "Every rank must pass the same op."},
      {"root rank", [](const Request& a, const Request& b) { return a.root_rank == b.root_rank; },
       "Every rank must name the same root_rank."},
      {"scale factors",
       [](const Request& a, const Request& b) {
         return a.prescale_factor == b.prescale_factor && a.postscale_factor == b.postscale_factor;
       },
       "Every rank must pass the same prescale_factor and postscale_factor."},
  };
  return *aspects;
}

const Aspect* FindDifference(const Request& a, const Request& b) {
  for (const Aspect& aspect : Aspects()) {
    if (!aspect.agree(a, b)) return &aspect;
  }
  return nullptr;
}

}  // namespace

std::string Describe(const Request& request) {
  std::string text;
  const size_t shown = std::min<size_t>(request.tensors.size(), 4);
  for (size_t i = 0; i < shown; ++i) {
    text += Concat(i == 0 ? "" : ", ", ShapeText(request.tensors[i]), " ", NameOf(request.tensors[i].dtype));
  }
  if (request.tensors.size() > shown) text += Concat(", ... (", request.tensors.size(), " tensors)");
  if (request.kind == CollectiveKind::kAllReduce) text += Concat(" ", NameOf(request.reduce_op));
  if (request.kind == CollectiveKind::kBroadcast) text += Concat(" from root ", request.root_rank);
  if (request.prescale_factor != 1.0) text += Concat(" prescale ", request.prescale_factor);
  if (request.postscale_factor != 1.0) text += Concat(" postscale ", request.postscale_factor);
  if (request.device == DeviceKind::kGpu) text += " on GPU";
  return Concat(NameOf(request.kind), " ", text);
}

std::string Title(const Request& request) {
  return request.name.empty() ? Concat(NameOf(request.kind), " (unnamed)")
                              : Concat(NameOf(request.kind), " '", request.name, "'");
}

bool Compatible(const Request& a, const Request& b) { return FindDifference(a, b) == nullptr; }

Status MismatchError(const std::vector<std::shared_ptr<const Request>>& requests) {
  // Ranks with compatible requests form one camp; the first rank that has submitted leads the first.
  std::vector<std::vector<int>> camps;
  std::vector<int> absent;
  for (int rank = 0; rank < static_cast<int>(requests.size()); ++rank) {
    if (requests[rank] == nullptr) {
      absent.push_back(rank);
      continue;
    }
    const auto camp = std::find_if(camps.begin(), camps.end(), [&](const std::vector<int>& ranks) {
      return Compatible(*requests[ranks.front()], *requests[rank]);
    });
    if (camp == camps.end()) {
      camps.push_back({rank});
    } else {
      camp->push_back(rank);
    }
  }
  const Request& first = *requests[camps[0].front()];
  const Aspect& aspect = *FindDifference(first, *requests[camps[1].front()]);
  std::string text = Concat(Title(first), ": ranks disagree on the ", aspect.name, ".");
  for (const std::vector<int>& camp : camps)
    text += Concat("\n  ", RankList(camp), ": ", Describe(*requests[camp.front()]));
  if (!absent.empty()) text += Concat("\n  ", RankList(absent), ": not submitted yet");
  return {StatusCode::kInvalidArgument, Concat(text, "\n", aspect.advice)};
}

}  // namespace tf_collectives

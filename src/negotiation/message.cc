#include "negotiation/message.h"

#include "wire.h"

namespace tf_collectives {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

void PutStatus(WireWriter* writer, const Status& status) {
  writer->Put(status.code());
  writer->PutText(status.message());
}

Status GetStatus(WireReader* reader) {
  const auto code = reader->Get<StatusCode>();
  return {code, reader->GetText()};
}

void PutSizes(WireWriter* writer, const GatherSizes& sizes) {
  writer->Put(static_cast<uint32_t>(sizes.size()));
  for (const std::vector<int64_t>& ranks : sizes) {
    writer->Put(static_cast<uint32_t>(ranks.size()));
    for (int64_t size : ranks) writer->Put(size);
  }
}

GatherSizes GetSizes(WireReader* reader) {
  GatherSizes sizes;
  for (auto tensors = reader->Get<uint32_t>(); tensors > 0 && reader->ok(); --tensors) {
    std::vector<int64_t>& ranks = sizes.emplace_back();
    for (auto count = reader->Get<uint32_t>(); count > 0 && reader->ok(); --count)
      ranks.push_back(reader->Get<int64_t>());
  }
  return sizes;
}

void PutExecution(WireWriter* writer, const Execution& execution) {
  writer->Put(execution.fusion_threshold);
  writer->Put(static_cast<uint32_t>(execution.evicted.size()));
  for (uint32_t id : execution.evicted) writer->Put(id);
  writer->Put(static_cast<uint32_t>(execution.requests.size()));
  for (const ScheduledRequest& request : execution.requests) {
    // A known request costs 4 bytes: its number, with the highest bit free to mark the others.
    writer->Put(request.cache_id | (request.known ? 0u : 0x80000000u));
    if (request.known) continue;
    writer->PutText(request.name);
    PutSizes(writer, request.sizes);
  }
}

Execution GetExecution(WireReader* reader) {
  Execution execution;
  execution.fusion_threshold = reader->Get<int64_t>();
  for (auto count = reader->Get<uint32_t>(); count > 0 && reader->ok(); --count) {
    execution.evicted.push_back(reader->Get<uint32_t>());
  }
  for (auto count = reader->Get<uint32_t>(); count > 0 && reader->ok(); --count) {
    ScheduledRequest& request = execution.requests.emplace_back();
    const auto tag = reader->Get<uint32_t>();
    request.cache_id = tag & 0x7FFFFFFFu;
    request.known = (tag & 0x80000000u) == 0;
    if (request.known) continue;
    request.name = reader->GetText();
    request.sizes = GetSizes(reader);
  }
  return execution;
}

}  // namespace

std::string EncodeRequest(const Request& request) {
  WireWriter writer;
  writer.Put(request.kind);
  writer.Put(request.device);
  writer.Put(request.reduce_op);
  writer.Put(request.root_rank);
  writer.Put(request.prescale_factor);
  writer.Put(request.postscale_factor);
  writer.Put(static_cast<uint32_t>(request.tensors.size()));
  for (const TensorSpec& tensor : request.tensors) {
    writer.Put(tensor.dtype);
    writer.Put(static_cast<uint32_t>(tensor.shape.size()));
    for (int64_t dimension : tensor.shape) writer.Put(dimension);
  }
  writer.PutRest(request.name);
  return writer.Take();
}

bool DecodeRequest(const std::string& bytes, Request* request) {
  WireReader reader(bytes);
  request->kind = reader.Get<CollectiveKind>();
  request->device = reader.Get<DeviceKind>();
  request->reduce_op = reader.Get<ReduceOp>();
  request->root_rank = reader.Get<int32_t>();
  request->prescale_factor = reader.Get<double>();
  request->postscale_factor = reader.Get<double>();
  for (auto count = reader.Get<uint32_t>(); count > 0 && reader.ok(); --count) {
    TensorSpec& tensor = request->tensors.emplace_back();
    tensor.dtype = reader.Get<DataType>();
    for (auto rank = reader.Get<uint32_t>(); rank > 0 && reader.ok(); --rank)
      tensor.shape.push_back(reader.Get<int64_t>());
  }
  request->name = reader.GetRest();
  return reader.ok();
}

std::string Encode(const RankMessage& message) {
  WireWriter writer;
  writer.Put(message.decisions_seen);
  writer.Put(static_cast<uint8_t>(message.content.index()));
  std::visit(Overloaded{[&](const Announcement& announcement) {
                          writer.Put(announcement.epoch);
                          writer.Put(announcement.cache_id);
                          if (announcement.cache_id == 0) writer.PutRest(announcement.request);
                        },
                        [&](const FailureReport& report) {
                          writer.Put(report.epoch);
                          PutStatus(&writer, report.status);
                        },
                        [](const Farewell&) {}},
             message.content);
  return writer.Take();
}

bool DecodeMessage(const std::string& bytes, RankMessage* message) {
  WireReader reader(bytes);
  message->decisions_seen = reader.Get<uint64_t>();
  const auto kind = reader.Get<uint8_t>();
  if (kind == 0) {
    Announcement announcement;
    announcement.epoch = reader.Get<uint32_t>();
    announcement.cache_id = reader.Get<uint32_t>();
    announcement.request = reader.GetRest();
    message->content = std::move(announcement);
  } else if (kind == 1) {
    FailureReport report;
    report.epoch = reader.Get<uint32_t>();
    report.status = GetStatus(&reader);
    message->content = std::move(report);
  } else {
    message->content = Farewell{};
  }
  return reader.ok();
}

std::string Encode(const Decision& decision) {
  WireWriter writer;
  writer.Put(static_cast<uint8_t>(decision.index()));
  std::visit(Overloaded{[&](const Execution& execution) { PutExecution(&writer, execution); },
                        [&](const Failure& failure) {
                          writer.Put(failure.epoch);
                          PutStatus(&writer, failure.status);
                        },
                        [&](const Departure& departure) { writer.Put(departure.rank); }},
             decision);
  return writer.Take();
}

bool DecodeDecision(const std::string& bytes, Decision* decision) {
  WireReader reader(bytes);
  const auto kind = reader.Get<uint8_t>();
  if (kind == 0) {
    *decision = GetExecution(&reader);
  } else if (kind == 1) {
    const auto epoch = reader.Get<uint32_t>();
    *decision = Failure{epoch, GetStatus(&reader)};
  } else {
    *decision = Departure{reader.Get<int32_t>()};
  }
  return reader.ok();
}

}  // namespace tf_collectives

#include "api/json_results.h"

#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"

namespace ebb::api {
namespace {

// JSON has no word for what is not finite: "nan", "inf".
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// What was measured is JSON already.
Json parsed(const std::string& json) {
  return json.empty() ? Json(nullptr) : parse_json(json, "a summary");
}

std::string_view word_of(EndedBy reason) {
  switch (reason) {
    case EndedBy::length: return "length";
    case EndedBy::stop: return "stop";
    case EndedBy::stop_text: return "stop_text";
    case EndedBy::caller: return "caller";
  }
  return "?";
}

Json to_json(const LogProbability& p) {
  return {{"id", p.id}, {"log_probability", number(p.log_probability)}};
}

}  // namespace

Json to_json(const Plan& plan) {
  Json tiers = Json::array();
  for (const TierUse& tier : plan.tiers) {
    tiers.push_back({{"tier", tier.tier}, {"peak", tier.peak}, {"limit", tier.limit}});
  }
  Json alternatives = Json::array();
  for (const PlanAlternative& other : plan.alternatives) {
    alternatives.push_back({{"flags", other.flags},
                            {"note", other.note},
                            {"speed", number(other.speed)},
                            {"device", other.device},
                            {"host", other.host}});
  }
  return {{"step_seconds", number(plan.step_seconds)},
          {"tokens_per_second", number(plan.tokens_per_second)},
          {"tiers", std::move(tiers)},
          {"flags", plan.flags},
          {"alternatives", std::move(alternatives)},
          {"explanation", plan.explanation}};
}

Json to_json(const StepReport& report) {
  return {{"step", report.step},
          {"steps", report.steps},
          {"loss", number(report.loss)},
          {"norm", number(report.norm)},
          {"learning_rate", number(report.learning_rate)},
          {"tokens_per_second", number(report.tokens_per_second)},
          {"utilization", or_null(report.utilization)},
          {"seconds_left", number(report.seconds_left)},
          {"device_bytes", report.device_bytes}};
}

Json to_json(const TrainSummary& summary) {
  return {{"steps", summary.steps},
          {"stopped", summary.stopped},
          {"checkpoint", summary.checkpoint},
          {"measured", parsed(summary.json)}};
}

Json to_json(const EvaluateReport& report) {
  return {{"batches", report.batches},     {"loss_tokens", report.loss_tokens},
          {"loss", number(report.loss)},   {"tokens_per_second", number(report.tokens_per_second)},
          {"share", number(report.share)}, {"seconds_left", number(report.seconds_left)}};
}

Json to_json(const EvaluateSummary& summary) {
  return {{"loss", number(summary.loss)},
          {"perplexity", number(summary.perplexity)},
          {"bits_per_byte", or_null(summary.bits_per_byte)},
          {"loss_tokens", summary.loss_tokens},
          {"tokens", summary.tokens},
          {"batches", summary.batches},
          {"whole", summary.whole},
          {"stopped", summary.stopped},
          {"seconds", number(summary.seconds)},
          {"tokens_per_second", number(summary.tokens_per_second)},
          {"device_peak", summary.device_peak},
          {"device_limit", summary.device_limit},
          {"host_peak", summary.host_peak},
          {"host_limit", summary.host_limit}};
}

Json to_json(const GenerateSummary& summary) {
  Json log_probabilities = Json::array();
  for (const TokenLogProbabilities& token : summary.log_probabilities) {
    Json likeliest = Json::array();
    for (const LogProbability& p : token.likeliest) likeliest.push_back(to_json(p));
    log_probabilities.push_back(
        {{"chosen", to_json(token.chosen)}, {"likeliest", std::move(likeliest)}});
  }
  return {{"text", summary.text},
          {"ids", summary.ids},
          {"log_probabilities", std::move(log_probabilities)},
          {"ended_by", word_of(summary.ended_by)},
          {"prompt_tokens", summary.prompt_tokens},
          {"reused_tokens", summary.reused_tokens},
          {"tokens", summary.tokens},
          {"settings", summary.settings},
          {"warning", summary.warning},
          {"note", summary.note},
          {"prompt_seconds", number(summary.prompt_seconds)},
          {"tokens_per_second", number(summary.tokens_per_second)},
          {"device_limit", summary.device_limit},
          {"device_peak", summary.device_peak},
          {"plan", summary.plan}};
}

Json describe(const Model& model) {
  return {{"name", model.name()},
          {"parameters", model.parameters()},
          {"vocabulary", model.vocabulary()},
          {"max_positions", model.max_positions()},
          {"has_weights", model.has_weights()},
          {"has_chat_template", model.has_chat_template()}};
}

Json describe_error(const std::exception& error) {
  Json described = {{"kind", "Error"}, {"text", error.what()}};
  if (const auto* budget = dynamic_cast<const OutOfBudget*>(&error)) {
    Json shortfalls = Json::array();
    for (const Shortfall& tier : budget->shortfalls()) {
      shortfalls.push_back({{"tier", tier.tier},
                            {"needed", tier.needed},
                            {"limit", tier.limit},
                            {"missing", tier.missing()}});
    }
    described["kind"] = "OutOfBudget";
    described["shortfalls"] = std::move(shortfalls);
    described["remedies"] = budget->remedies();
  } else if (const auto* io = dynamic_cast<const IoError*>(&error)) {
    described["kind"] = "IoError";
    described["path"] = io->path();
    described["offset"] = or_null(io->offset());
  } else if (const auto* config = dynamic_cast<const ConfigError*>(&error)) {
    described["kind"] = "ConfigError";
    described["flag"] = config->flag();
  } else if (dynamic_cast<const DeviceError*>(&error) != nullptr) {
    described["kind"] = "DeviceError";
  } else if (dynamic_cast<const FormatError*>(&error) != nullptr) {
    described["kind"] = "FormatError";
  } else if (dynamic_cast<const NumericsError*>(&error) != nullptr) {
    described["kind"] = "NumericsError";
  } else if (dynamic_cast<const Cancelled*>(&error) != nullptr) {
    described["kind"] = "Cancelled";
  }
  return described;
}

}  // namespace ebb::api

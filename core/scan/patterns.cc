#include "core/scan/patterns.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace lockstep::core {
namespace {

#define INT R"((?:\d{1,3}(?:,\d{3})+|\d{1,15}))"
#define NUM R"([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
#define MANY NUM R"((?:[kKMG]\b)?)"  // "12.3k"
#define STEP "(?P<step>" INT ")"
#define TOTAL "(?P<total>" INT ")"
#define OF R"(\s*(?:/|\bof\b)\s*)"
#define OF_TOTAL "(?:" OF TOTAL ")?"
// Between a name and its figure: `step: 3`, `"step": 3`, `step=[3`, `step | 3`, `step (3`.
#define SEP R"(['")]?\s*[:=#|]?\s*[\[(]?\s*['"]?)"
// A figure ends here: not in the middle of a word, of a share or of a number with a fraction.
#define END R"((?:\.0+)?(?:[^\w.%-]|\.(?:\D|$)|-(?:\D|$)|$))"
// The line's begin, or the end of what a logger or a launcher puts before it.
#define BEGIN R"((?:^|[\])>|]\s+|\b(?:INFO|DEBUG)\b\W{1,4})\s*)"
#define EPOCH_OF R"((?P<epoch>\d{1,9})\s*(?:(?:/|\bof\b)\s*(?P<epochs>\d{1,9})\s*)?)"

// The first that matches a line wins.
constexpr Shape kShapes[] = {
    // "global_step=300", "num_updates 3000", "| total_timesteps | 2048 |"
    {"global step", ShapeKind::kGlobalStep, 0, Beside::kNothing,
     R"((?i)(?:^|[^\w])(?:global[_ ]?steps?|num_updates|optimizer[_ ]steps?|total[_ ]timesteps))"
     R"((?:/max_steps)?)" SEP STEP OF_TOTAL END},
    // "Epoch 3/10 ... step 45/100", "epoch: 3 | batch: 45 | loss", "Epoch[1] Iteration[100/938]"
    {"step of an epoch", ShapeKind::kEpochIteration, 3, Beside::kFigure,
     R"((?i)\bep(?:och)?\b)" SEP EPOCH_OF
     R"([^\d].*?\b(?:local[_ ]?step|steps?|(?:mini-?)?batch(?:es)?|iter(?:ation)?s?|it|idx)\b)" SEP
     R"((?:\d{1,9}-)?)" STEP OF_TOTAL END},
    // "[epoch=0][batch=45/100]:"
    {"epoch and batch", ShapeKind::kEpochIteration, 3, Beside::kNothing,
     R"((?i)\[epoch=(?P<epoch>\d{1,9})(?:/(?P<epochs>\d{1,9}))?\]\[batch=)" STEP "(?:/" TOTAL
     R"()?\])"},
    // "12epoch:train:101-150batch: ..."
    {"epoch and batches", ShapeKind::kEpochIteration, 3, Beside::kLoss,
     R"((?i)\b(?P<epoch>\d{1,9})epoch:train:\d+-)" STEP "batch"},
    // "iteration     100/  500000 |", "Iter(train) [  50/20000]", "Learning iteration 10/1500"
    {"iteration of a total", ShapeKind::kIteration, 1, Beside::kFigure,
     R"((?i)\biter(?:ation)?s?\b(?:\(train\))?)" SEP STEP OF TOTAL R"(\b)"},
    // "Epoch: [0][  1/100]", "Epoch(train) [1][ 50/4309]", "Train: 0 [  50/1251 (  4%)]"
    {"epoch, then a count", ShapeKind::kEpochCount, 3, Beside::kNothing,
     R"((?i)\b(?:train\s+)?(?:epoch(?:\(train\))?|train)\s*:?\s*\[?\s*)" EPOCH_OF
     R"(\]?\s*:?\s*\[\s*)" STEP R"(\s*/\s*)" TOTAL R"(\b)"},
    // "45%|####      | 45/100 [00:10<00:12,  4.40it/s, loss=1.2]", after any description
    {"bar", ShapeKind::kBar, 5, Beside::kNothing,
     R"(^(?P<about>.*?)\s*\d{1,3}%\|[^|]*\|\s*)" STEP "/" TOTAL R"(\s*\[)"},
    // "640: 50% ━━━━━━────── 2/4 3.9it/s 0.5s<0.5s"
    {"bar", ShapeKind::kBar, 5, Beside::kNothing,
     R"(^(?P<about>.*?)\s*\d{1,3}%\s+[━─╸╺╴╶]{2,}\s*)" STEP "/" TOTAL R"(\s)"},
    // "Epoch 1/5 : |███-----| 45.00% [45/100 00:10<00:12 0.53]"
    {"bar", ShapeKind::kBar, 5, Beside::kNothing,
     R"(^(?P<about>.*?)\s*\|[█-]{4,}\|\s*[\d.]{1,6}%\s*\[)" STEP "/" TOTAL R"(\s)"},
    // "epoch 001:    450 / 1891 loss=", "| epoch   1 |   200/ 2983 batches | loss"
    {"epoch, then a count", ShapeKind::kEpochCount, 3, Beside::kNothing,
     R"((?i)\bepoch\s*[:=\[#]?\s*)" EPOCH_OF R"(\]?\s*[:|,;-]\s*\[?\s*)" STEP R"(\s*/\s*)" TOTAL
     R"(\b)"},
    // "Epoch 0/2 ━━━━━━━━ 20/50 0:00:01 • 0:00:02 38.51it/s"
    {"rich bar", ShapeKind::kEpochCount, 3, Beside::kNothing,
     R"((?i)^epoch\s+(?P<epoch>\d{1,9})/(?P<epochs>\d{1,9})\s*[━╸╺ ]{2,}\s*)" STEP "/" TOTAL
     R"(\b)"},
    // "12/40 ━━━━━━━━ 0s 2ms/step - accuracy: 0.5 - loss: 0.7", under a line "Epoch 1/3"
    {"Keras", ShapeKind::kKeras, 4, Beside::kNothing,
     R"(^\s*)" STEP "/(?:" TOTAL R"(|Unknown)\s+[━=>.\[\] ╸-]*\s*)"
     R"((?:\d+[:\dhms]*\s+\d+\S*/(?:step|epoch)\b|.*\bloss\b))"},
    // "[1,  2000] loss: 2.187"
    {"epoch and step", ShapeKind::kEpochIteration, 6, Beside::kLoss,
     BEGIN R"(\[(?P<epoch>\d{1,9}),\s*)" STEP R"(\]\s+)"},
    // "[0/25][100/782] Loss_D: 1.2 Loss_G: 3.4"
    {"epoch, then a count", ShapeKind::kEpochCount, 3, Beside::kLoss,
     R"(\[\s*(?P<epoch>\d{1,9})\s*/\s*(?P<epochs>\d{1,9})\s*\]\s*\[\s*)" STEP R"(\s*/\s*)" TOTAL
     R"(\s*\])"},
    // "step 100/1000", "step=20, skipped=0", "Step 00045 | loss", '"step": 5', "Up. 1000 :"
    {"step", ShapeKind::kStep, 2, Beside::kFigure,
     R"((?i)(?:^|[^\w/.-])(?:train(?:ing)?[_ /]?)?(?:steps?|iter(?:ation)?s?|updates?|up\.|round|)"
     R"(batch(?:es)?|it))" SEP STEP OF_TOTAL END},
    // "loss: 2.302185  [   64/60000]"
    {"count after a loss", ShapeKind::kCount, 6, Beside::kLoss,
     R"((?i)\bloss\b\s*[:=]?\s*)" NUM R"(\s*[\[(]\s*)" STEP R"(\s*/\s*)" TOTAL R"(\b)"},
    // "[12/300] loss=1.2"
    {"count", ShapeKind::kCount, 6, Beside::kLoss,
     BEGIN R"(\[\s*)" STEP R"(\s*/\s*)" TOTAL R"(\s*\])"},
    // "[12]\ttrain-rmse:0.51", "[10]\tvalid_0's binary_logloss: 0.6"
    {"boosting round", ShapeKind::kRound, 6, Beside::kNothing,
     R"((?i))" BEGIN R"(\[)" STEP R"(\]\s+(?:\S*train\S*|[\w'. -]{0,48}(?:logloss|rmse|mae|mape|)"
     R"(auc|error|l1|l2|ndcg|map|loss|deviance)(?:@\d+)?)\s*:\s*)" NUM},
    // "0:\tlearn: 0.6558\ttotal: 60.2ms\tremaining: 1m"
    {"boosting round", ShapeKind::kRound, 6, Beside::kNothing,
     R"(^\s*)" STEP R"(:\s+(?:learn|test):\s*)" NUM R"(.*\b(?:total|remaining|best):)"},
    // "[100] loss=1.2, learning_rate=0.1"
    {"count", ShapeKind::kCount, 6, Beside::kLoss, BEGIN R"(\[)" STEP R"(\]\s+)"},
    // "10 | loss 8.1 | lr 1e-4", "100/1000: loss=0.5"
    {"count", ShapeKind::kCount, 6, Beside::kLoss,
     BEGIN "#?" STEP R"((?:\s*/\s*)" TOTAL R"()?\s*[:|,]\s)"},
    // "Epoch  3: train_loss=0.5, val_loss=0.6"
    {"epoch", ShapeKind::kEpoch, 9, Beside::kLoss, R"((?i)\bep(?:och)?\b)" SEP EPOCH_OF END},
};

constexpr const char* kFigures[] = {
    R"((?i)(?:\b(?:tokens?[_ ]?(?:per|/)[_ ]?s(?:ec(?:ond)?)?(?:/device)?|tok(?:ens)?/s(?:ec)?)"
    R"((?:/device)?|tps|wps|tgs|tokens_per_sec(?:ond)?)\b['")]*\s*[:=|]?\s*['"]?(?P<v>)" MANY
    R"()|(?P<w>)" MANY R"()\s*tok(?:ens)?/s(?:ec)?\b))",
    R"((?i)\b(?:samples?[_ ]?(?:per|/)[_ ]?s(?:ec(?:ond)?)?|RunningAvgSamplesPerSec|fps)\b)"
    R"(['"]?\s*[:=|]?\s*['"]?(?P<v>)" MANY ")|(?i)(?P<w>" MANY R"()\s*(?:samples|images)/s)",
    R"((?i)(?:\b|_)mfu\b\s*[:=]?\s*(?P<v>)" NUM R"()\s*(?P<pct>%?))",
    R"((?i)\bt(?:era)?flops?(?:/s)?(?:/(?:gpu|device))?\)?\s*[:=]?\s*(?P<v>)" NUM ")",
    R"((?i)(?:^|[^\w-])(?:train(?:ing)?[/_. -]?)?(?:accuracy|acc(?:@1)?|top1)['"]?\s*[:= ]\s*)"
    R"(['"]?(?P<v>)" NUM ")",
    R"((?i)(?:^|[^\w])(?:grad(?:ient)?[_ ]?norm|gnorm)\b['"]?\s*[:= ]\s*['"]?(?P<v>)" NUM ")",
    R"((?i)(?:^|[^\w-])(?:lr|l\.r\.|learning[_ ]rate)['"]?\s*[:= ]\s*\[?['"]?(?P<v>)" NUM ")",
    R"((?P<v>\d+(?:\.\d+)?)\s*(?P<unit>it/s|s/it|steps?/s|s/step|ms/step|ms/batch))",
    R"((?i)\b(?:(?:train|step|iter(?:ation)?|batch|tokens?|elapsed)[_ ](?:time|avg|dt)|time_per_step|)"
    R"(step_ms|dt)(?:[_ ]?(?:in )?\(?m?s\)?)?\s*[:=]?\s*(?P<v>)" NUM R"(\s*m?s?\b))",
    R"((?i)\b(?:eta|remaining(?: wall clock)?(?: time)?|will finish)\b\s*[:=]?\s*(?P<v>\d|[A-Z]))",
    R"((?i)\b(?:ppl|perplexity|xent|reward(?:/mean)?|ep_rew_mean)\b['"]?\s*[:=|]\s*(?P<v>)" NUM ")",
};
static_assert(std::size(kFigures) == Patterns::kFigureCount);

constexpr const char* kExtras[] = {
    R"((?i)(?:loss|\bcost\b))",
    R"((?i)^\s*\{\s*['"](?:loss|train_loss)['"])",
    R"((?i)(?:['"]eval_(?:loss|runtime)['"]|running (?:evaluation|prediction)\b))",
    R"((?i)\b(?:total (?:optimization|training) steps|max[_ ]steps|total[_ ]steps|train[_-]iters|)"
    R"(number of iterations)\b[ .]*[:=]?\s*(?P<v>)" INT R"()\s*$)",
    R"((?i)\bnum(?:ber of)?[_ ]epochs\b\s*[:=]?\s*(?P<v>\d{1,9})\s*$)",
    R"((?i)^[\s=#*>-]*epoch\s*:?\s*#?\[?(?P<epoch>\d{1,9})\]?(?:\s*(?:/|of)\s*(?P<epochs>\d{1,9}))?)"
    R"([\s=#*\].:-]*$)",
    R"((?i)^[\s|]*(?:epoch|ep|e|#|step|iter(?:ation)?|round)\b?[\s|]+[a-z#|].*\bloss|)"
    R"((?i)^[\s|]*(?:epoch|e|#|step|iter(?:ation)?|round)\b?[\s|]+[a-z_#].*loss\b|^\s*Step\s+Time\s*$)",
};
static_assert(std::size(kExtras) == Patterns::kExtraCount);

constexpr const char* kOtherWords =
    R"((?i)\b(val|valid|validat\w*|eval|evaluat\w*|test|testing|sanity|predict\w*|inference|)"
    R"(generat\w*|checkpoint\w*|sav(?:e|ed|ing)|load(?:ed|ing)|overflow|skipp\w*|attempt\w*|)"
    R"(retr(?:y|ies|ying)|created?|cancel\w*|srun|slurm\w*|task|residual|newton|krylov|calibrat\w*|)"
    R"(benchmark\w*|profil\w*|download\w*|upload\w*|install\w*|insert\w*|build|building|compil\w*|)"
    R"(resum(?:e|ed|ing)|restor(?:e|ed|ing)|warm-?up|migrat\w*|deploy\w*|backup\w*|stage)(?:[^\w./]|$))";
constexpr const char* kOtherBars =
    R"((?i)(val|eval|test|sanity|predict|generat|map|filter|token|download|fetch|load|sav|shard|)"
    R"(upload|comput|extract|checkpoint|warm|pars|preprocess|convert|resolv|build|compil|captur|)"
    R"(profil|copy|creat|writ|read|scan|index|encod|embed|unpack|install|request|infer|process|)"
    R"(calibrat|quantiz|merg|split|render|Class\s+Images))";
// A bar with a description that says neither this nor a loss may count anything.
constexpr const char* kTrainingBars =
    R"((?i)(train|\bep(?:och)?\b|\bsteps?\b|\biter|batch|update|\bfit|learn|optimi|round|loss))";
// An epoch in a bar's description: "Epoch 1/3:", "Train epoch [1/1]:", "1|10|Loss: 1.2:",
// "1/100      2.61G      1.153 ... 640:"
constexpr const char* kBarEpoch =
    R"((?i)\bep(?:och)?\b\s*[:=#]?\s*[\[(]?\s*(?P<epoch>\d{1,9})\s*(?:(?:/|\bof\b)\s*(?P<epochs>\d{1,9}))?|)"
    R"(^\s*(?P<epoch2>\d{1,9})\|\d+\||^\s*(?P<epoch3>\d{1,9})/(?P<epochs3>\d{1,9})\s+[\d.]+[KMGT]?\s)";

std::unique_ptr<re2::RE2> Compile(const char* regex) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_unique<re2::RE2>(regex, options);
  assert(compiled->ok());
  return compiled;
}

int Group(const re2::RE2& regex, const char* name) {
  const auto& groups = regex.NamedCapturingGroups();
  const auto found = groups.find(name);
  return found == groups.end() ? 0 : found->second;
}

void FindGroups(CompiledPattern* pattern) {
  pattern->step = Group(*pattern->regex, "step");
  pattern->total = Group(*pattern->regex, "total");
  pattern->epoch = Group(*pattern->regex, "epoch");
  pattern->epochs = Group(*pattern->regex, "epochs");
  pattern->loss = Group(*pattern->regex, "loss");
  pattern->about = Group(*pattern->regex, "about");
}

}  // namespace

Result<CompiledPattern> CompileUserPattern(const std::string& text) {
  if (text.size() > kMaxUserPattern) {
    return Error::Invalid("has more than " + std::to_string(kMaxUserPattern) + " bytes");
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(int64_t{1} << 20);
  CompiledPattern pattern;
  pattern.regex = std::make_unique<re2::RE2>(text, options);
  if (!pattern.regex->ok()) {
    return Error::Invalid(
        "is not a regular expression (https://github.com/google/re2/wiki/Syntax): " +
        pattern.regex->error());
  }
  for (const auto& [name, number] : pattern.regex->NamedCapturingGroups()) {
    if (name != "step" && name != "total" && name != "epoch" && name != "epochs" &&
        name != "loss") {
      return Error::Invalid("has the group " + name +
                            "; the groups are step, total, epoch, epochs and loss");
    }
  }
  FindGroups(&pattern);
  if (pattern.step == 0 && pattern.epoch == 0 && pattern.loss == 0) {
    return Error::Invalid(R"(needs one of the groups step, epoch and loss, as in (?P<step>\d+))");
  }
  pattern.name = "pattern " + text;
  return pattern;
}

bool Patterns::Matches::any() const {
  const auto is_set = [](bool value) { return value; };
  return !shapes.empty() || std::ranges::any_of(figures, is_set) ||
         std::ranges::any_of(extras, is_set);
}

const Patterns& Patterns::BuiltIn() {
  static const Patterns* const patterns = new Patterns();  // lives as long as the process
  return *patterns;
}

Patterns::Patterns()
    : other_words_(Compile(kOtherWords)),
      other_bars_(Compile(kOtherBars)),
      training_bars_(Compile(kTrainingBars)),
      bar_epoch_(Compile(kBarEpoch)) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(int64_t{16} << 20);
  set_ = std::make_unique<re2::RE2::Set>(options, re2::RE2::UNANCHORED);
  const auto add = [this](const char* regex) {
    std::string error;
    const int index = set_->Add(regex, &error);
    assert(index >= 0);
    static_cast<void>(index);
  };
  for (const Shape& shape : kShapes) {
    CompiledPattern pattern;
    pattern.name = shape.name;
    pattern.kind = shape.kind;
    pattern.rank = shape.rank;
    pattern.beside = shape.beside;
    pattern.regex = Compile(shape.regex);
    FindGroups(&pattern);
    shapes_.push_back(std::move(pattern));
    add(shape.regex);
  }
  for (const char* regex : kFigures) {
    figures_.push_back(Compile(regex));
    add(regex);
  }
  for (const char* regex : kExtras) {
    extras_.push_back(Compile(regex));
    add(regex);
  }
  const bool compiled = set_->Compile();
  assert(compiled);
  static_cast<void>(compiled);
}

Patterns::Matches Patterns::Match(std::string_view line) const {
  Matches matches;
  std::vector<int> found;
  if (!set_->Match(re2::StringPiece(line.data(), line.size()), &found)) return matches;
  std::ranges::sort(found);
  const int shapes = static_cast<int>(shapes_.size());
  for (const int index : found) {
    if (index < shapes) {
      matches.shapes.push_back(index);
    } else if (index < shapes + kFigureCount) {
      matches.figures[static_cast<size_t>(index - shapes)] = true;
    } else {
      matches.extras[static_cast<size_t>(index - shapes - kFigureCount)] = true;
    }
  }
  return matches;
}

}  // namespace lockstep::core

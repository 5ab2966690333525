#include "base/man/man_page.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string_view>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

// Text that roff prints as it is. In a page, - alone is a hyphen and ' a curly quote.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  // A line that begins with a dot is a request to roff. The quote at a line's start is escaped.
  if (out.starts_with('.')) out.insert(0, "\\&");
  return out;
}

std::string Bold(std::string_view text) { return "\\fB" + Escaped(text) + "\\fR"; }
std::string Italic(std::string_view text) { return "\\fI" + Escaped(text) + "\\fR"; }

std::string CommandLine(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : CommandLine(*parent) + " " + app.get_name();
}

// CLI11 describes a value as "TEXT", "TEXT:{table,json}", "INT:INT in [1 - 600]".
struct ValueType {
  std::string name;
  std::vector<std::string> choices;
  std::string range;
};

ValueType TypeOf(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t colon = text.find(':');
  ValueType type{text.substr(0, colon), {}, ""};
  if (colon == std::string::npos) return type;
  const std::string rest = text.substr(colon + 1);
  if (rest.starts_with('{') && rest.ends_with('}')) {
    std::istringstream words(rest.substr(1, rest.size() - 2));
    for (std::string word; std::getline(words, word, ',');) type.choices.push_back(word);
  } else if (const size_t bracket = rest.find('['); bracket != std::string::npos) {
    type.range = rest.substr(bracket + 1, rest.find(']') - bracket - 1);
  } else if (rest.find("..") != std::string::npos) {
    type.range = rest;
  }
  return type;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "-m, --machines INT"
std::string OptionTerm(const CLI::Option& option) {
  std::string term;
  for (const std::string& name : option.get_snames())
    term += (term.empty() ? "" : ", ") + Bold("-" + name);
  for (const std::string& name : option.get_lnames())
    term += (term.empty() ? "" : ", ") + Bold("--" + name);
  if (!TakesValue(option)) return term;
  const ValueType type = TypeOf(option);
  term += " ";
  for (const std::string& choice : type.choices)
    term += (&choice == &type.choices.front() ? "" : "|") + Bold(choice);
  return type.choices.empty() ? term + Italic(type.name) : term;
}

std::string ParagraphOf(const CLI::Option& option) {
  std::string text = Escaped(option.get_description()) + "\n";
  const std::string range = TypeOf(option).range;
  if (!range.empty()) text += "Range: " + Escaped(range) + ".\n";
  const std::string initial = TakesValue(option) ? option.get_default_str() : "";
  if (!initial.empty()) text += "Default: " + Escaped(initial) + ".\n";
  if (!option.get_envname().empty()) text += "Environment: " + Bold(option.get_envname()) + ".\n";
  return text;
}

std::string Section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : ".SH " + title + "\n" + body;
}

std::string Synopsis(const CLI::App& app, const ManFacts& facts) {
  std::string text = Bold(CommandLine(app));
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty())
    return text + " [" + Italic("OPTION") + "]... " + Italic("COMMAND") + "\n";
  text += " [" + Italic("OPTION") + "]...";
  for (const CLI::Option* each : app.get_options()) {
    if (!each->get_positional() || each->get_group().empty()) continue;
    const std::string name =
        Italic(each->get_name(true)) + (each->get_expected_max() > 1 ? "..." : "");
    text += " " + (each->get_required() ? name : "[" + name + "]");
  }
  if (facts.takes_command_line) text += " [" + Bold("--") + " " + Italic("COMMAND") + "...]";
  return text + "\n";
}

std::string Arguments(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* each : app.get_options()) {
    if (!each->get_positional() || each->get_group().empty()) continue;
    text += ".TP\n" + Italic(each->get_name(true)) + "\n" + ParagraphOf(*each);
  }
  return text;
}

std::string Options(const CLI::App& app) {
  std::string text;
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;  // hidden
    std::string part;
    for (const CLI::Option* each : app.get_options()) {
      if (each->get_group() != group || each->get_positional()) continue;
      part += ".TP\n" + OptionTerm(*each) + "\n" + ParagraphOf(*each);
    }
    if (!part.empty() && group != "Options") text += ".SS " + Escaped(group) + "\n";
    text += part;
  }
  return text;
}

std::string Commands(const CLI::App& app) {
  std::string text;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_group().empty()) continue;  // hidden
    text += ".TP\n" + Bold(each->get_name()) + "\n" + Escaped(each->get_description()) + ".\nSee " +
            Bold(ManPageName(*each)) + "(1).\n";
  }
  return text;
}

struct Footer {
  std::vector<std::string> examples, exit_codes, notes;
};

Footer ReadFooter(const std::string& text) {
  Footer footer;
  std::vector<std::string>* part = &footer.notes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>* const before = part;
    if (line.starts_with("Examples:")) {
      part = &footer.examples;
      line.erase(0, std::string_view("Examples:").size());
    } else if (line.starts_with("Exit codes:")) {
      part = &footer.exit_codes;
      line.erase(0, std::string_view("Exit codes:").size());
    } else if (line.empty()) {
      part = &footer.notes;
    }
    if (part == before || !line.empty()) part->push_back(line);
  }
  for (std::vector<std::string>* each : {&footer.examples, &footer.exit_codes, &footer.notes}) {
    while (!each->empty() && each->back().empty()) each->pop_back();
  }
  return footer;
}

// Lines as they stand, in a fixed width.
std::string AsTyped(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = ".nf\n";
  for (const std::string& line : lines) text += Escaped(line) + "\n";
  return text + ".fi\n";
}

std::string Paragraphs(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line.empty() ? ".PP\n" : Escaped(Trim(line)) + "\n";
  return text;
}

// "  70   the job failed" becomes a term and its meaning; running text stays such.
std::string ExitStatus(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    const size_t gap = line.find("  ", 2);
    if (line.starts_with("  ") && gap != std::string::npos) {
      text += ".TP\n" + Bold(line.substr(2, gap - 2)) + "\n" +
              Escaped(Trim(std::string_view(line).substr(gap))) + "\n";
    } else {
      text += Escaped(Trim(line)) + "\n";
    }
  }
  return text;
}

std::string SeeAlso(const CLI::App& app, const ManFacts& facts) {
  std::vector<std::string> pages = facts.also;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) pages.push_back(ManPageName(*each));
  }
  std::ranges::sort(pages);
  std::string text;
  for (const std::string& page : pages) {
    text += ".BR " + Escaped(page) + " (1)" + (&page == &pages.back() ? "" : ",") + "\n";
  }
  return text;
}

}  // namespace

std::string ManPageName(const CLI::App& app) {
  std::string name = CommandLine(app);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string ManPage(const CLI::App& app, const ManFacts& facts) {
  const std::string name = ManPageName(app);
  std::string title = name;
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const Footer footer = ReadFooter(app.get_footer());
  std::istringstream description(app.get_description());
  std::string paragraphs;
  for (std::string line; std::getline(description, line);) paragraphs += Escaped(line) + "\n";
  // One line, up to the first colon or full stop: `apropos` shows it.
  std::string brief = app.get_description();
  brief = brief.substr(0, std::min(brief.find(':'), brief.find(". ")));
  std::ranges::replace(brief, '\n', ' ');
  std::string names = Escaped(name);
  for (const std::string& alias : facts.aliases) names += ", " + Escaped(alias);
  return ".TH " + Escaped(title) + " 1 \"" + facts.date + "\" \"Lockstep " + facts.version +
         "\" \"Lockstep\"\n" + Section("NAME", names + " \\- " + Escaped(brief) + "\n") +
         Section("SYNOPSIS", Synopsis(app, facts)) + Section("DESCRIPTION", paragraphs) +
         Section("COMMANDS", Commands(app)) + Section("ARGUMENTS", Arguments(app)) +
         Section("OPTIONS", Options(app)) + Section("EXIT STATUS", ExitStatus(footer.exit_codes)) +
         Section("NOTES", Paragraphs(footer.notes)) +
         Section("EXAMPLES", AsTyped(footer.examples)) + Section("SEE ALSO", SeeAlso(app, facts));
}

std::string ManDate() {
  std::time_t when = std::time(nullptr);
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr) {
    if (const auto seconds = ParseNumber<int64_t>(epoch)) when = *seconds;
  }
  std::tm date{};
  if (gmtime_r(&when, &date) == nullptr) return "";
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &date)};
}

}  // namespace lockstep

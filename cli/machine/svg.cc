#include "cli/machine/svg.h"

#include <array>
#include <cstdio>

#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : core::OneLine(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Number(double value) {
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string Attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}

}  // namespace

void Svg::Box(double x, double y, double width, double height, std::string_view fill,
              std::string_view stroke) {
  body_ += "<rect" + Attribute("x", Number(x)) + Attribute("y", Number(y)) +
           Attribute("width", Number(width)) + Attribute("height", Number(height)) +
           Attribute("rx", "4") + Attribute("fill", std::string(fill)) +
           Attribute("stroke", std::string(stroke)) + "/>\n";
}

void Svg::Text(double x, double y, std::string_view text, int size, bool centred,
               std::string_view colour) {
  body_ += "<text" + Attribute("x", Number(x)) + Attribute("y", Number(y)) +
           Attribute("font-size", std::to_string(size)) +
           (centred ? Attribute("text-anchor", "middle") : "") +
           Attribute("fill", std::string(colour)) + ">" + Escape(text) + "</text>\n";
}

std::string Svg::Finish(double width, double height) const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + Attribute("width", Number(width)) +
         Attribute("height", Number(height)) +
         Attribute("viewBox", "0 0 " + Number(width) + " " + Number(height)) +
         " font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
         body_ + "</svg>\n";
}

double TextWidth(std::string_view text, int size) {
  return 0.62 * size * static_cast<double>(text.size());
}

}  // namespace lockstep::cli

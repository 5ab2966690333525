#include "cli/ui/page_file.h"

#include <zlib.h>

#include <array>
#include <stdexcept>

#include "base/text/ascii.h"
#include "cli/ui/embedded/embedded_page.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostOfPage = size_t{64} << 20;
constexpr int kGzip = 15 + 16;  // zlib's window bits for it
constexpr std::string_view kPlace = "<script type=\"application/json\" id=\"saved\"></script>";

}  // namespace

const char* const kNoPage =
    "this lockstep was built without its page, because esbuild or the page's packages were "
    "missing; install them with tools/deps and build again";

std::optional<PageFile> EmbeddedPage() {
  if (EmbeddedHtml().empty()) return std::nullopt;
  return PageFile{EmbeddedHtml(), Trim(EmbeddedCsp(), " \n")};
}

Result<std::string> Decompress(std::string_view gzip) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) return Error::Internal("zlib cannot begin");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  std::string text;
  std::array<char, 65536> block;
  int state = Z_OK;
  while (state == Z_OK && text.size() <= kMostOfPage) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = block.size();
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END) return Error::Invalid("not a complete gzip file");
  return text;
}

std::string Compress(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot begin: out of memory");
  }
  std::string gzip(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(gzip.data());
  stream.avail_out = static_cast<uInt>(gzip.size());
  deflate(&stream, Z_FINISH);
  gzip.resize(stream.total_out);
  deflateEnd(&stream);
  return gzip;
}

Result<std::string> SavedPage(std::string html, std::string_view view) {
  const size_t at = html.find(kPlace);
  if (at == std::string::npos) return Error::Invalid("the page has no place for a saved view");
  // Only texts hold "<", and with none of them no end of the element and no comment can begin.
  std::string data;
  data.reserve(view.size() + view.size() / 16);
  for (const char c : view) {
    if (c == '<') {
      data += "\\u003c";
    } else {
      data += c;
    }
  }
  html.insert(at + kPlace.find("</"), data);
  return html;
}

}  // namespace lockstep::cli

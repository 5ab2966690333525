package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// The limits of a part, as the agent has them (worker/agent/files/part_folder.h).
const (
	maxEntries = 8192
	maxPath    = 2048
	maxKey     = 1024 // bytes, by S3
)

// An entry is a file, a folder or a symbolic link of a part. Names are bytes; Path and Target are
// escaped, because JSON and keys are UTF-8.
type entry struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // file, folder or link
	Mode   uint32 `json:"mode,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"`
}

// escape keeps letters, digits and ._~/=+- and writes each other byte as %XX.
func escape(name string) string {
	var out strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("._~/=+-", c) >= 0:
			out.WriteByte(c)
		default:
			const digits = "0123456789ABCDEF"
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return out.String()
}

func unescape(text string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}
		if i+3 > len(text) {
			return "", errors.New("a name ends within %XX")
		}
		value, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", err
		}
		out.WriteByte(byte(value))
		i += 2
	}
	return out.String(), nil
}

// readTree lists what is in a folder, without hashes. The first entry is the folder itself.
func readTree(folder string) ([]entry, error) {
	var found []entry
	err := filepath.WalkDir(folder, func(path string, each fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if name == "." {
			name = ""
		}
		info, err := each.Info()
		if err != nil {
			return err
		}
		if len(found) == maxEntries || len(name) > maxPath {
			return failf(invalid, "%s: a part may have %d files, folders and links, and paths of %d bytes",
				path, maxEntries, maxPath)
		}
		one := entry{Path: escape(name), Mode: uint32(info.Mode().Perm())}
		switch {
		case info.IsDir():
			one.Kind = "folder"
		case info.Mode().IsRegular():
			one.Kind, one.Size = "file", info.Size()
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			one.Kind, one.Mode, one.Target = "link", 0, escape(target)
		default:
			return failf(invalid, "%s is neither a file, a folder nor a symbolic link", path)
		}
		found = append(found, one)
		return nil
	})
	if err != nil {
		if known := (*storeError)(nil); errors.As(err, &known) {
			return nil, known
		}
		return nil, failf(invalid, "%s", err)
	}
	return found, nil
}

// merge lays all parts over each other. What two have alike may differ in its mode: then the first
// one's counts.
func merge(parts [][]entry) ([]entry, error) {
	byPath := map[string]entry{}
	for machine, part := range parts {
		for _, each := range part {
			first, taken := byPath[each.Path]
			if !taken {
				byPath[each.Path] = each
				continue
			}
			first.Mode = each.Mode
			if first != each {
				return nil, failf(conflict, "machine %d's part has another %s than a lower machine's; "+
					"files that differ between machines need different names", machine, each.Path)
			}
		}
	}
	merged := make([]entry, 0, len(byPath))
	for _, each := range byPath {
		merged = append(merged, each)
	}
	sort.Slice(merged, func(a, b int) bool { return merged[a].Path < merged[b].Path })
	for i, each := range merged {
		for at, c := range each.Path {
			if c != '/' {
				continue
			}
			if above, found := byPath[each.Path[:at]]; found && above.Kind != "folder" {
				return nil, failf(conflict, "%s is in a part and lies below %s, which is a %s in another",
					merged[i].Path, above.Path, above.Kind)
			}
		}
	}
	return merged, nil
}

// check refuses a manifest whose paths lead out of its folder, or through a link.
func check(entries []entry) error {
	kinds := map[string]string{}
	for i, each := range entries {
		name, err := unescape(each.Path)
		if err != nil || (i == 0) != (name == "") ||
			(name != "" && (!filepath.IsLocal(name) || filepath.Clean(name) != name)) {
			return failf(damaged, "a manifest has the path '%s'", each.Path)
		}
		if above := filepath.Dir(name); name != "" && above != "." && kinds[above] != "folder" {
			return failf(damaged, "a manifest has '%s', and no folder above it", each.Path)
		}
		if kinds[name] != "" || each.Size < 0 {
			return failf(damaged, "a manifest has '%s' twice, or with a negative size", each.Path)
		}
		kinds[name] = each.Kind
	}
	if kinds[""] != "folder" {
		return failf(damaged, "a manifest does not begin with its folder")
	}
	return nil
}

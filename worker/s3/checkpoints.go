package main

// The bucket, below the prefix. A part is what one machine has of a checkpoint.
//
//	generations/2-5                               the record of a generation; created exclusively
//	commits/2-5/000003.step-1200.json             the manifest: with it the checkpoint is complete
//	parts/2-5/000003.step-1200/0.json             machine 0's list of files
//	checkpoints/2-5/000003.step-1200/model/a.pt   the files, under their own names
//
// Records, manifests and files are never written over: they are created under If-None-Match. An old
// writer can therefore add to its own generation only, which nobody reads once a later generation
// has a record.

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

type generation struct{ attempt, n uint64 }

var (
	generationPattern = regexp.MustCompile(`^([1-9][0-9]{0,9})-([1-9][0-9]{0,9})$`)
	// The agent's names: a generation, the number of the commit, and the program's name for it.
	checkpointPattern = regexp.MustCompile(`^([0-9]+-[0-9]+)/([0-9]{6,10})\.([^/]+)$`)
)

func parseGeneration(text string) (generation, error) {
	match := generationPattern.FindStringSubmatch(text)
	if match == nil {
		return generation{}, failf(invalid, "a generation is ATTEMPT-NUMBER, such as 2-5, not '%s'", text)
	}
	attempt, _ := strconv.ParseUint(match[1], 10, 64)
	n, _ := strconv.ParseUint(match[2], 10, 64)
	return generation{attempt, n}, nil
}

func (g generation) String() string { return fmt.Sprintf("%d-%d", g.attempt, g.n) }

func (g generation) less(other generation) bool {
	return g.attempt < other.attempt || (g.attempt == other.attempt && g.n < other.n)
}

// A checkpoint's place in the bucket. In keys its name is escaped, as paths of files are.
type checkpoint struct {
	generation generation
	number     uint64
	name       string // "step-1200", as the program has it
}

// A committed one, and when, by the store's clock.
type commitment struct {
	checkpoint
	at time.Time
}

func parseCheckpoint(text string) (checkpoint, error) {
	match := checkpointPattern.FindStringSubmatch(text)
	if match == nil {
		return checkpoint{}, failf(invalid,
			"a checkpoint is GENERATION/NUMBER.NAME, such as 2-5/000003.step-1200, not '%s'", text)
	}
	g, err := parseGeneration(match[1])
	if err != nil {
		return checkpoint{}, err
	}
	number, err := strconv.ParseUint(match[2], 10, 32)
	if err != nil {
		return checkpoint{}, failf(invalid, "'%s' has no number of a commit", text)
	}
	return checkpoint{g, number, match[3]}, nil
}

func (c checkpoint) String() string { return fmt.Sprintf("%s/%06d.%s", c.generation, c.number, c.name) }
func (c checkpoint) key() string {
	return fmt.Sprintf("%s/%06d.%s", c.generation, c.number, escape(c.name))
}
func (c checkpoint) commit() string { return "commits/" + c.key() + ".json" }
func (c checkpoint) part(machine int) string {
	return fmt.Sprintf("parts/%s/%d.json", c.key(), machine)
}
func (c checkpoint) files() string { return "checkpoints/" + c.key() + "/" }

func (c checkpoint) less(other checkpoint) bool {
	if c.generation != other.generation {
		return c.generation.less(other.generation)
	}
	if c.number != other.number {
		return c.number < other.number
	}
	return c.name < other.name
}

type record struct {
	Generation string `json:"generation"`
	JobUID     string `json:"jobUID"`
	Resumes    string `json:"resumes"`
	// Tells two agents apart that begin the same generation with the same content.
	Writer string `json:"writer,omitempty"`
	// The record cannot be read.
	Damaged bool `json:"damaged,omitempty"`
}

type manifest struct {
	Checkpoint string    `json:"checkpoint"`
	JobUID     string    `json:"jobUID"`
	Parts      [][]entry `json:"parts"` // by machine
}

func toJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

func commands() map[string]command {
	all := map[string]command{}
	add := func(name string, make func(*flag.FlagSet) func(context.Context, *store) (any, error)) {
		flags := flag.NewFlagSet("lockstep-s3 "+name, flag.ContinueOnError)
		all[name] = command{flags, make(flags)}
	}
	add("begin", func(f *flag.FlagSet) func(context.Context, *store) (any, error) {
		which := f.String("generation", "", "the `generation`, such as 2-5")
		job := f.String("job", "", "the `UID` of the job")
		resumes := f.String("resumes", "", "the `checkpoint` that it resumes from")
		return func(ctx context.Context, s *store) (any, error) { return s.begin(ctx, *which, *job, *resumes) }
	})
	add("state", func(*flag.FlagSet) func(context.Context, *store) (any, error) {
		return func(ctx context.Context, s *store) (any, error) { return s.state(ctx) }
	})
	add("put-part", func(f *flag.FlagSet) func(context.Context, *store) (any, error) {
		which := f.String("checkpoint", "", "`GENERATION/NUMBER.NAME`")
		machine := f.Int("machine", 0, "whose part it is")
		folder := f.String("folder", "", "the `folder` that holds the part")
		return func(ctx context.Context, s *store) (any, error) {
			c, err := parseCheckpoint(*which)
			if err != nil {
				return nil, err
			}
			return s.putPart(ctx, c, *machine, *folder)
		}
	})
	add("commit", func(f *flag.FlagSet) func(context.Context, *store) (any, error) {
		which := f.String("checkpoint", "", "`GENERATION/NUMBER.NAME`")
		job := f.String("job", "", "the `UID` of the job")
		machines := f.Int("machines", 1, "how many parts the checkpoint has")
		return func(ctx context.Context, s *store) (any, error) {
			c, err := parseCheckpoint(*which)
			if err != nil {
				return nil, err
			}
			return s.commitParts(ctx, c, *job, *machines)
		}
	})
	add("fetch", func(f *flag.FlagSet) func(context.Context, *store) (any, error) {
		which := f.String("checkpoint", "", "`GENERATION/NUMBER.NAME`")
		folder := f.String("folder", "", "the `folder` to make")
		machine := f.Int("machine", -1, "only the part of this machine, if there are so many as --machines")
		machines := f.Int("machines", 0, "the job's machines now")
		limit := f.Int64("limit", 0, "refuse to fetch more `bytes` than this; 0: no limit")
		return func(ctx context.Context, s *store) (any, error) {
			c, err := parseCheckpoint(*which)
			if err != nil {
				return nil, err
			}
			return s.fetch(ctx, c, *folder, *machine, *machines, *limit)
		}
	})
	add("prune", func(f *flag.FlagSet) func(context.Context, *store) (any, error) {
		which := f.String("generation", "", "the running `generation`, which has committed")
		job := f.String("job", "", "the `UID` of the job")
		keep := f.Int("keep", 3, "how many of the newest checkpoints stay, at least 1")
		every := f.Duration("keep-every", 0, "of the others one for each such interval stays, too; 0: none")
		return func(ctx context.Context, s *store) (any, error) { return s.prune(ctx, *which, *job, *keep, *every) }
	})
	return all
}

// ---- generations ----

func (s *store) begin(ctx context.Context, which, job, resumes string) (any, error) {
	g, err := parseGeneration(which)
	if err != nil {
		return nil, err
	}
	text := toJSON(record{Generation: g.String(), JobUID: job, Resumes: resumes, Writer: rand.Text()})
	key := "generations/" + g.String()
	if err := s.create(ctx, key, text); err != nil {
		return nil, err
	}
	// A store that ignores the condition would let two agents begin one generation.
	if err := s.put(ctx, key, text, true); !isKind(err, conflict) {
		if err != nil {
			return nil, err
		}
		return nil, failf(invalid, "the store ignores If-None-Match, without which commits are not safe")
	}
	return map[string]any{"generation": g.String()}, nil
}

func (s *store) state(ctx context.Context) (any, error) {
	records, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	commits, err := s.commits(ctx, "commits/")
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, each := range commits {
		names = append(names, each.String())
	}
	return map[string]any{"generations": records, "commits": names}, nil
}

func (s *store) records(ctx context.Context) ([]record, error) {
	objects, err := s.list(ctx, "generations/", false)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o object) bool {
		_, err := parseGeneration(strings.TrimPrefix(o.key, "generations/"))
		return err != nil
	})
	records := make([]record, len(objects))
	err = s.each(ctx, len(objects), func(ctx context.Context, i int) error {
		name := strings.TrimPrefix(objects[i].key, "generations/")
		text, err := s.get(ctx, objects[i].key)
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &records[i]) != nil || records[i].Generation != name {
			records[i] = record{Damaged: true}
		}
		records[i].Generation, records[i].Writer = name, ""
		return nil
	})
	return records, err
}

// commits lists the manifests below a key, in order.
func (s *store) commits(ctx context.Context, below string) ([]commitment, error) {
	objects, err := s.list(ctx, below, true)
	if err != nil {
		return nil, err
	}
	var found []commitment
	for _, each := range objects {
		name, ok := strings.CutSuffix(strings.TrimPrefix(each.key, "commits/"), ".json")
		plain, err := unescape(name)
		if !ok || err != nil {
			continue
		}
		if c, err := parseCheckpoint(plain); err == nil && c.commit() == each.key {
			found = append(found, commitment{c, each.modified})
		}
	}
	slices.SortFunc(found, func(a, b commitment) int {
		if a.less(b.checkpoint) {
			return -1
		}
		return 1
	})
	return found, nil
}

// ---- writing ----

type moved struct {
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	There   int     `json:"there"` // of these files, so many were in the store before
	Seconds float64 `json:"seconds"`
}

func (s *store) putPart(ctx context.Context, c checkpoint, machine int, folder string) (any, error) {
	began := time.Now()
	if machine < 0 {
		return nil, failf(invalid, "--machine must be 0 or more, not %d", machine)
	}
	entries, err := readTree(folder)
	if err != nil {
		return nil, err
	}
	// What an earlier try has left.
	objects, err := s.list(ctx, c.files(), true)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, each := range objects {
		there[each.key] = true
	}
	result := moved{}
	var small, large []int
	for i, each := range entries {
		if each.Kind != "file" {
			continue
		}
		if len(s.key(c.files()+each.Path)) > maxKey {
			return nil, failf(invalid, "%s: its key would have more than %d bytes", each.Path, maxKey)
		}
		result.Files++
		result.Bytes += each.Size
		if there[c.files()+each.Path] {
			result.There++
		}
		if each.Size <= pieceSize {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	one := func(ctx context.Context, each *entry) error {
		name, err := unescape(each.Path)
		if err != nil {
			return err
		}
		path := filepath.Join(folder, name)
		if each.SHA256, err = hashFile(path); err != nil {
			return err
		}
		key := c.files() + each.Path
		if there[key] {
			return s.same(ctx, key, each.Size, each.SHA256)
		}
		return s.upload(ctx, key, path, each.Size, each.SHA256)
	}
	err = s.each(ctx, len(small), func(ctx context.Context, i int) error { return one(ctx, &entries[small[i]]) })
	// A large file takes all requests by itself.
	for _, i := range large {
		if err == nil {
			err = one(ctx, &entries[i])
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.put(ctx, c.part(machine), toJSON(entries), false); err != nil {
		return nil, about(c.part(machine), err)
	}
	result.Seconds = time.Since(began).Seconds()
	return result, nil
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", failf(invalid, "%s", err)
	}
	defer file.Close()
	sum, err := hashOf(file)
	if err != nil {
		return "", failf(invalid, "%s", err)
	}
	return sum, nil
}

func (s *store) commitParts(ctx context.Context, c checkpoint, job string, machines int) (any, error) {
	if machines < 1 {
		return nil, failf(invalid, "--machines must be 1 or more, not %d", machines)
	}
	// No guarantee, because a later generation may begin at this moment: the readers' rule is one.
	if later, err := s.later(ctx, c.generation); err != nil || later != "" {
		if err == nil {
			err = failf(conflict, "generation %s is over: %s has begun", c.generation, later)
		}
		return nil, err
	}
	parts := make([][]entry, machines)
	err := s.each(ctx, machines, func(ctx context.Context, i int) error {
		text, err := s.get(ctx, c.part(i))
		if isKind(err, missing) {
			return failf(unavailable, "machine %d's part of %s is not in the store", i, c)
		}
		if err != nil {
			return err
		}
		if json.Unmarshal(text, &parts[i]) != nil {
			return failf(damaged, "%s is no list of files", c.part(i))
		}
		return check(parts[i])
	})
	if err != nil {
		return nil, err
	}
	if _, err := merge(parts); err != nil {
		return nil, err
	}
	if err := s.create(ctx, c.commit(), toJSON(manifest{c.String(), job, parts})); err != nil {
		return nil, err
	}
	return map[string]any{"checkpoint": c.String()}, nil
}

// later names a generation above g; "": there is none.
func (s *store) later(ctx context.Context, g generation) (string, error) {
	objects, err := s.list(ctx, "generations/", false)
	if err != nil {
		return "", err
	}
	for _, each := range objects {
		other, err := parseGeneration(strings.TrimPrefix(each.key, "generations/"))
		if err == nil && g.less(other) {
			return other.String(), nil
		}
	}
	return "", nil
}

// ---- reading ----

func (s *store) fetch(ctx context.Context, c checkpoint, folder string, machine, machines int,
	limit int64) (any, error) {
	began := time.Now()
	text, err := s.get(ctx, c.commit())
	if isKind(err, missing) {
		return nil, failf(missing, "%s was not committed", c)
	}
	if err != nil {
		return nil, err
	}
	var m manifest
	if json.Unmarshal(text, &m) != nil || m.Checkpoint != c.String() || len(m.Parts) == 0 {
		return nil, failf(damaged, "%s is no manifest of %s", c.commit(), c)
	}
	entries, err := merge(m.Parts)
	if err != nil {
		return nil, err
	}
	if machine >= 0 && machine < machines && machines == len(m.Parts) {
		entries = m.Parts[machine]
	}
	if err := check(entries); err != nil {
		return nil, err
	}
	result := moved{}
	for _, each := range entries {
		if each.Kind == "file" {
			result.Files++
			result.Bytes += each.Size
		}
	}
	if limit > 0 && result.Bytes > limit {
		return nil, failf(invalid, "%s has %d MiB here, and there is room for %d MiB", c, result.Bytes>>20, limit>>20)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, os.ErrNotExist) {
		return nil, failf(invalid, "%s exists already", folder)
	}
	draft := folder + ".fetching"
	if err := os.RemoveAll(draft); err != nil {
		return nil, failf(unavailable, "%s", err)
	}
	if err := s.fill(ctx, c, entries, draft); err != nil {
		_ = os.RemoveAll(draft)
		return nil, err
	}
	if err := os.Rename(draft, folder); err != nil {
		return nil, failf(unavailable, "%s", err)
	}
	result.Seconds = time.Since(began).Seconds()
	return result, nil
}

// fill makes the tree of a manifest. A folder gets its mode last, because it may not be writable.
func (s *store) fill(ctx context.Context, c checkpoint, entries []entry, folder string) error {
	pathOf := func(each entry) string {
		name, _ := unescape(each.Path)
		return filepath.Join(folder, name)
	}
	var small, large []entry
	for _, each := range entries {
		switch {
		case each.Kind == "folder":
			if err := os.MkdirAll(pathOf(each), 0o700); err != nil {
				return failf(unavailable, "%s", err)
			}
		case each.Kind == "file" && each.Size <= pieceSize:
			small = append(small, each)
		case each.Kind == "file":
			large = append(large, each)
		}
	}
	one := func(ctx context.Context, each entry) error {
		file, err := os.OpenFile(pathOf(each), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return failf(unavailable, "%s", err)
		}
		defer file.Close()
		if err := s.download(ctx, c.files()+each.Path, file, each.Size, each.SHA256); err != nil {
			return err
		}
		if err := errors.Join(file.Chmod(os.FileMode(each.Mode)), file.Sync()); err != nil {
			return failf(unavailable, "%s", err)
		}
		return nil
	}
	if err := s.each(ctx, len(small), func(ctx context.Context, i int) error { return one(ctx, small[i]) }); err != nil {
		return err
	}
	for _, each := range large {
		if err := one(ctx, each); err != nil {
			return err
		}
	}
	for _, each := range slices.Backward(entries) {
		var err error
		switch each.Kind {
		case "link":
			target, bad := unescape(each.Target)
			err = errors.Join(bad, os.Symlink(target, pathOf(each)))
		case "folder":
			err = os.Chmod(pathOf(each), os.FileMode(each.Mode))
		}
		if err != nil {
			return failf(unavailable, "%s", err)
		}
	}
	return nil
}

// ---- retention ----

// prune deletes only what is older than a commit of the running generation, which alone commits
// there. Every later generation resumes from that commit or a newer one, so it needs nothing of
// what is deleted, even if this process is paused and continues long after.
func (s *store) prune(ctx context.Context, which, job string, keep int, every time.Duration) (any, error) {
	g, err := parseGeneration(which)
	if err != nil {
		return nil, err
	}
	if keep < 1 || every < 0 {
		return nil, failf(invalid, "--keep must be 1 or more, not %d, and --keep-every 0 or more", keep)
	}
	records, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	own := map[generation]bool{}
	for _, each := range records {
		if other, err := parseGeneration(each.Generation); err == nil && each.JobUID == job && !each.Damaged {
			own[other] = true
		}
	}
	commits, err := s.commits(ctx, "commits/")
	if err != nil {
		return nil, err
	}
	commits = slices.DeleteFunc(commits, func(c commitment) bool { return !own[c.generation] || g.less(c.generation) })
	if len(commits) == 0 || commits[len(commits)-1].generation != g {
		return map[string]any{"deleted": []string{}}, nil
	}
	kept := map[string]bool{}
	deleted := []string{}
	var last time.Time // of the last one that an interval keeps: the same at each prune
	for i, each := range commits {
		marks := every > 0 && each.at.Sub(last) >= every
		if marks {
			last = each.at
		}
		if marks || i >= len(commits)-keep {
			kept[each.key()] = true
			continue
		}
		// The manifest first: a checkpoint is whole or none.
		if err := s.remove(ctx, []string{each.commit()}); err != nil {
			return nil, err
		}
		deleted = append(deleted, each.String())
	}
	if err := s.sweep(ctx, own, commits[len(commits)-1].checkpoint, kept); err != nil {
		return nil, err
	}
	return map[string]any{"deleted": deleted}, nil
}

// sweep deletes the files of checkpoints that have no manifest and are older than `newest`: deleted
// ones, and tries that failed, with unfinished uploads of earlier generations.
func (s *store) sweep(ctx context.Context, own map[generation]bool, newest checkpoint, kept map[string]bool) error {
	for _, kind := range []string{"parts/", "checkpoints/"} {
		objects, err := s.list(ctx, kind, true)
		if err != nil {
			return err
		}
		var useless []string
		for _, each := range objects {
			pieces := strings.SplitN(strings.TrimPrefix(each.key, kind), "/", 3)
			if len(pieces) < 3 || kept[pieces[0]+"/"+pieces[1]] {
				continue
			}
			name, err := unescape(pieces[1])
			if err != nil {
				continue
			}
			c, err := parseCheckpoint(pieces[0] + "/" + name)
			if err == nil && own[c.generation] && c.less(newest) {
				useless = append(useless, each.key)
			}
		}
		if err := s.remove(ctx, useless); err != nil {
			return err
		}
	}
	return s.abandon(ctx, own, newest.generation)
}

func (s *store) abandon(ctx context.Context, own map[generation]bool, g generation) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for each := range s.core.Client.ListIncompleteUploads(ctx, s.bucket, s.key("checkpoints/"), true) {
		if each.Err != nil {
			return each.Err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(each.Key, s.key("checkpoints/")), "/")
		if of, err := parseGeneration(name); err != nil || !own[of] || !of.less(g) {
			continue
		}
		err := s.core.AbortMultipartUpload(ctx, s.bucket, each.Key, each.UploadID)
		if err != nil && minio.ToErrorResponse(err).Code != "NoSuchUpload" {
			return err
		}
	}
	return nil
}

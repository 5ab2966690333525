// Lockstep-s3 keeps checkpoints in an object store that speaks S3. The agent, which is a small
// static program without a TLS client for the web, starts it once for each operation.
//
//	lockstep-s3 [options] COMMAND [options of the command]
//
// It writes one line of JSON to standard output: the result, or {"error": {"kind", "message"}} with
// exit code 1. docs/adr/069-checkpoints-in-an-object-store.md has the layout of the bucket and the
// reasons.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// version is set by the linker.
var version = "unknown"

const usage = `lockstep-s3 [options] COMMAND [options of the command]

Keeps checkpoints of Lockstep in an object store that speaks S3. The agent starts it.

Commands:
  begin     creates the record of a generation, unless it exists
  state     lists generations and commits
  put-part  uploads one machine's part of a checkpoint
  commit    writes the manifest of a checkpoint whose parts are all there
  fetch     downloads a checkpoint, or one machine's part of it
  prune     deletes old checkpoints of a job

Credentials are the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or
else the role of the pod or machine. The store's certificate must be of an authority that this
computer knows, or that is in the file AWS_CA_BUNDLE or in the text AWS_CA_PEM.

Options:
`

type command struct {
	flags *flag.FlagSet
	run   func(context.Context, *store) (any, error)
}

func main() {
	// Ranks have the agent's user: they may not read the credentials in this process's environment.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
	os.Exit(serve(os.Args[1:], os.Stdout, os.Stderr))
}

// serve runs one command and returns the exit code: 0, 1 with an error as JSON, or 2 for a command
// line that is no use.
func serve(arguments []string, out, messages io.Writer) int {
	var options options
	flags := flag.NewFlagSet("lockstep-s3", flag.ContinueOnError)
	flags.SetOutput(messages)
	options.register(flags)
	showVersion := flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprint(messages, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *showVersion {
		fmt.Fprintln(out, "lockstep-s3", version)
		return 0
	}
	commands := commands()
	chosen, known := commands[flags.Arg(0)]
	if !known {
		fmt.Fprintf(messages, "lockstep-s3: there is no command '%s'; see --help\n", flags.Arg(0))
		return 2
	}
	chosen.flags.SetOutput(messages)
	if err := chosen.flags.Parse(flags.Args()[1:]); err != nil {
		return 2
	}
	if left := chosen.flags.Args(); len(left) > 0 {
		fmt.Fprintf(messages, "lockstep-s3: '%s' is one argument too many\n", strings.Join(left, " "))
		return 2
	}
	// Files of gigabytes pass through in pieces: the heap stays small beside the ranks.
	debug.SetGCPercent(50)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, options.timeout)
	defer cancel()
	began := time.Now()
	result, err := func() (any, error) {
		store, err := open(options)
		if err != nil {
			return nil, err
		}
		return chosen.run(ctx, store)
	}()
	if err != nil {
		failure := classify(err)
		if ctx.Err() != nil {
			failure = &storeError{unavailable, fmt.Sprintf("%s was not done after %.0f s: %s",
				flags.Arg(0), time.Since(began).Seconds(), failure.Message)}
		}
		write(out, map[string]any{"error": failure})
		return 1
	}
	write(out, result)
	return 0
}

func write(out io.Writer, value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "%s\n", line)
}

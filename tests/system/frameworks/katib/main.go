// What Katib makes of a trial's job: it asks the job by gjson, first whether it has failed and then
// whether it has succeeded; an object, or a list with something in it, is a yes.
//
//	katib-verdict FAILURE_CONDITION SUCCESS_CONDITION <job.json
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tidwall/gjson"
)

func holds(job, condition string) bool {
	found := gjson.Get(job, condition)
	return found.IsObject() || found.IsArray() && len(found.Array()) > 0
}

func main() {
	job, err := io.ReadAll(os.Stdin)
	if err != nil || len(os.Args) != 3 || !gjson.ValidBytes(job) {
		fmt.Fprintln(os.Stderr, "usage: katib-verdict FAILURE_CONDITION SUCCESS_CONDITION <job.json")
		os.Exit(2)
	}
	switch {
	case holds(string(job), os.Args[1]):
		fmt.Println("Failed")
	case holds(string(job), os.Args[2]):
		fmt.Println("Succeeded")
	default:
		fmt.Println("Running")
	}
}

// kstatus as Helm and Flux compile it: it reads a JSON list of objects from standard input and
// prints a line for each, `InProgress`, `Current`, `Failed` or `Terminating`.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	// As an API client reads numbers: kstatus takes no float64 for a generation.
	text, err := os.ReadFile("/dev/stdin")
	if err != nil {
		log.Fatal(err)
	}
	var objects []json.RawMessage
	if err := json.Unmarshal(text, &objects); err != nil {
		log.Fatal(err)
	}
	for _, each := range objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(each); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Status)
	}
}

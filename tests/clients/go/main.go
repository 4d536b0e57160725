// Reads an API server the way Go programs do: client-go's discovery, openapi3
// and type converter, kube-openapi's v2 model, kubectl's apply metadata and
// cli-runtime's query-parameter verifiers.
//
//	go run . -kubeconfig FILE -recorded DIR -objects FILE [-record]
//
// Prints one FAIL line per deviation and `checks N failed M` at the end.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	recorded := flag.String("recorded", "recorded", "folder with recorded answers")
	objects := flag.String("objects", "objects.yaml", "objects to type and patch")
	record := flag.Bool("record", false, "write the recorded answers instead of comparing")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Println("FAIL kubeconfig:", err)
		os.Exit(1)
	}
	// The suites measure answers; client-side throttling would only slow them.
	config.QPS, config.Burst = 1000, 1000

	s := &suite{config: config, recorded: *recorded, objectsFile: *objects, record: *record}
	s.client = discovery.NewDiscoveryClientForConfigOrDie(config)
	s.checkDiscovery()
	s.checkOpenAPIV3()
	s.checkOpenAPIV2()
	s.checkTypeConverter()
	s.checkApplyMetadata()
	s.checkQueryParameters()
	s.checkHTTPCache()

	fmt.Printf("checks %d failed %d\n", s.checks, s.failed)
	if s.failed > 0 {
		os.Exit(1)
	}
}

type suite struct {
	config         *rest.Config
	client         *discovery.DiscoveryClient
	recorded       string
	objectsFile    string
	record         bool
	checks, failed int

	// kinds maps every served kind to the verbs of its main resource.
	kinds map[schema.GroupVersionKind][]string
}

// sortedKinds fixes the order of the checks, so that two logs can be compared.
func (s *suite) sortedKinds() []schema.GroupVersionKind {
	kinds := make([]schema.GroupVersionKind, 0, len(s.kinds))
	for gvk := range s.kinds {
		kinds = append(kinds, gvk)
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	return kinds
}

// check counts one check and reports whether it held.
func (s *suite) check(ok bool, format string, args ...any) bool {
	s.checks++
	if !ok {
		s.failed++
		fmt.Printf("FAIL "+format+"\n", args...)
	}
	return ok
}

// noError is check for calls that must succeed.
func (s *suite) noError(err error, what string) bool {
	return s.check(err == nil, "%s: %v", what, err)
}

// sameLines compares lines, in any order, and names those on one side only.
func (s *suite) sameLines(what string, got, want []string) {
	got, want = slices.Clone(got), slices.Clone(want)
	sort.Strings(got)
	sort.Strings(want)
	if s.check(slices.Equal(got, want), "%s: answers differ", what) {
		return
	}
	printMissing("unexpected", got, want)
	printMissing("missing", want, got)
}

// printMissing prints the lines of one side that the other does not have, but
// no flood of them.
func printMissing(label string, lines, other []string) {
	const most = 20
	printed := 0
	for _, line := range lines {
		if slices.Contains(other, line) {
			continue
		}
		if printed == most {
			fmt.Printf("  %s: and more\n", label)
			return
		}
		fmt.Printf("  %s: %s\n", label, line)
		printed++
	}
}

// matchesRecorded compares lines with a recorded file, or writes that file.
func (s *suite) matchesRecorded(name string, got []string) {
	path := filepath.Join(s.recorded, name)
	if s.record {
		sort.Strings(got)
		s.noError(os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644), "record "+name)
		return
	}
	s.sameLines(name, got, s.recordedLines(name))
}

func (s *suite) recordedLines(name string) []string {
	data, err := os.ReadFile(filepath.Join(s.recorded, name))
	if !s.noError(err, "read "+name) {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
}

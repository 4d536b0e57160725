// Applies and makes patches with upstream's libraries: the oracle of library.jsonl.
//
//	go build . && python3 cases.py SEED COUNT | ./library > ../library.jsonl
//
// Cases come in as JSON, one a line, and go out with "r", the result, or "err".
// Left out is what upstream leaves to chance, and where it panics.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var types = map[string]any{
	"io.k8s.api.apps.v1.Deployment":            &appsv1.Deployment{},
	"io.k8s.api.core.v1.Node":                  &corev1.Node{},
	"io.k8s.api.core.v1.Pod":                   &corev1.Pod{},
	"io.k8s.api.core.v1.Service":               &corev1.Service{},
	"io.k8s.api.core.v1.ServiceAccount":        &corev1.ServiceAccount{},
	"io.k8s.api.policy.v1.PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
}

// Case is a question, and with R or Err its answer.
type Case struct {
	Op        string          `json:"op"`
	Type      string          `json:"type,omitempty"`
	Overwrite bool            `json:"overwrite,omitempty"`
	A         json.RawMessage `json:"a"`
	B         json.RawMessage `json:"b"`
	C         json.RawMessage `json:"c,omitempty"`
	R         json.RawMessage `json:"r,omitempty"`
	Err       string          `json:"err,omitempty"`
}

// What upstream does by accident and we do not.
var accidents = []string{
	"panic:", "no elements in any of the given slices", "declared merge key: \n", "json field \"$deleteFromPrimitiveList",
}

func (c *Case) answer() (result []byte, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("panic: %v", found)
		}
	}()
	kind := types[c.Type]
	switch c.Op {
	case "smp":
		return strategicpatch.StrategicMergePatch(c.A, c.B, kind)
	case "two":
		return strategicpatch.CreateTwoWayMergePatch(c.A, c.B, kind)
	case "three":
		meta, err := strategicpatch.NewPatchMetaFromStruct(kind)
		if err != nil {
			return nil, err
		}
		patch, err := strategicpatch.CreateThreeWayMergePatch(c.A, c.B, c.C, meta, c.Overwrite)
		if mergepatch.IsConflict(err) {
			return nil, fmt.Errorf("conflict")
		}
		return patch, err
	case "merge":
		return jsonpatch.MergePatch(c.A, c.B)
	case "jtwo":
		return jsonpatch.CreateMergePatch(c.A, c.B)
	case "jthree":
		return jsonmergepatch.CreateThreeWayJSONMergePatch(c.A, c.B, c.C)
	case "json":
		patch, err := jsonpatch.DecodePatch(c.B)
		if err != nil {
			return nil, err
		}
		result, err := patch.Apply(c.A)
		if err != nil && !strings.HasPrefix(err.Error(), "panic") {
			return nil, fmt.Errorf("fails")
		}
		return result, err
	}
	return nil, fmt.Errorf("unknown op %s", c.Op)
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
next:
	for {
		var c Case
		if in.Decode(&c) != nil {
			return
		}
		var err error
		if c.R, err = c.answer(); err != nil {
			c.R, c.Err = nil, err.Error()
		}
		for _, accident := range accidents {
			if strings.Contains(c.Err+"\n", accident) {
				continue next
			}
		}
		if err := out.Encode(c); err != nil {
			panic(err)
		}
	}
}

package main

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// quantity reads a text, or compares, adds and subtracts two.
func quantity(line json.RawMessage) (any, error) {
	var question struct{ Text, Left, Right *string }
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	if question.Text != nil {
		read, err := resource.ParseQuantity(*question.Text)
		if err != nil {
			return map[string]any{"error": err.Error()}, nil
		}
		answer := map[string]any{"canonical": read.String()}
		// Beyond it MilliValue overflows.
		if read.CmpInt64(resource.MaxMilliValue) <= 0 && read.CmpInt64(-resource.MaxMilliValue) >= 0 {
			answer["milli"] = read.MilliValue()
		}
		return answer, nil
	}
	left, err := resource.ParseQuantity(*question.Left)
	if err != nil {
		return nil, err
	}
	right, err := resource.ParseQuantity(*question.Right)
	if err != nil {
		return nil, err
	}
	sum, difference := left.DeepCopy(), left.DeepCopy()
	sum.Add(right)
	difference.Sub(right)
	return map[string]any{"compare": left.Cmp(right), "sum": sum.String(), "difference": difference.String()}, nil
}

// selector reads a selector of labels or fields, and says which sets it matches.
func selector(line json.RawMessage) (any, error) {
	var question struct {
		Label, Field *string
		Object       *metav1.LabelSelector
		Sets         []map[string]string
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	var text string
	var err error
	var match func(map[string]string) bool
	if question.Field != nil {
		var selector fields.Selector
		if selector, err = fields.ParseSelector(*question.Field); err == nil {
			text, match = selector.String(), func(set map[string]string) bool { return selector.Matches(fields.Set(set)) }
		}
	} else {
		var selector labels.Selector
		if question.Label != nil {
			selector, err = labels.Parse(*question.Label)
		} else {
			selector, err = metav1.LabelSelectorAsSelector(question.Object)
		}
		if err == nil {
			text, match = selector.String(), func(set map[string]string) bool { return selector.Matches(labels.Set(set)) }
		}
	}
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	matches := []bool{}
	for _, set := range question.Sets {
		matches = append(matches, match(set))
	}
	return map[string]any{"text": text, "matches": matches}, nil
}

// moment reads a time by the layout of metav1.Time or metav1.MicroTime, and writes it as those do.
func moment(line json.RawMessage) (any, error) {
	var question struct{ Form, Text string }
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	layout := time.RFC3339
	if question.Form == "MicroTime" {
		layout = metav1.RFC3339Micro
	}
	read, err := time.Parse(layout, question.Text)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"written": read.UTC().Format(layout), "seconds": read.Unix(), "nanos": read.Nanosecond()}, nil
}

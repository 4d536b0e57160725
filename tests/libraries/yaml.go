package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// readYAML says what a text is as JSON, and whether a key of it is set twice.
func readYAML(line json.RawMessage) (any, error) {
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return nil, err
	}
	value, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "error", nil
	}
	if _, err := yaml.YAMLToJSONStrict([]byte(text)); err != nil {
		return string(value) + " (key set twice)", nil
	}
	return string(value), nil
}

// writeYAML writes a value.
func writeYAML(line json.RawMessage) (any, error) {
	value, err := sorted(line)
	if err != nil {
		return nil, err
	}
	text, err := yaml.JSONToYAML(value)
	return string(text), err
}

// sorted has keys in the order of Go's JSON, for readers of YAML.
func sorted(line json.RawMessage) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	written, err := json.Marshal(value)
	return escaped(written), err
}

// escaped has the escapes that YAML needs, and not those that it does not know: pairs of surrogates.
func escaped(text []byte) []byte {
	var out []byte
	for _, character := range string(text) {
		if character >= 0x7f && character <= 0xffff {
			out = fmt.Appendf(out, "\\u%04x", character)
		} else {
			out = utf8.AppendRune(out, character)
		}
	}
	return out
}

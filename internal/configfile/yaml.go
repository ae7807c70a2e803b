package configfile

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// parseYAML parses the one document of a YAML file. The content may also be JSON as hosts write it,
// with comments and indented by TABs. The error has no File.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	root, err := parseDocument(data)
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if root, bad := parseJSON(data); bad == nil {
			return root, nil
		}
	}
	return root, err
}

func parseDocument(data []byte) (*yaml.Node, *Error) {
	doc, second, err := documents(data)
	switch {
	case err != nil:
		return nil, yamlError(data, err)
	case doc == nil:
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}, nil
	case second != nil:
		return nil, &Error{Line: second.Line, Col: second.Column, Msg: "a second document begins here; a configuration is one"}
	}
	return doc.Content[0], nil
}

// documents returns the first and the second document, nil for one that is not there.
func documents(data []byte) (doc, second *yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for _, next := range []**yaml.Node{&doc, &second} {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		*next = &n
	}
	return doc, second, nil
}

package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/wire"
)

// Bounds on values. Larger and deeper values, and numbers that are costly to compare, are
// not checked.
const (
	maxInstanceBytes  = 1 << 20
	maxInstanceDepth  = 256
	maxNumberDigits   = 400
	maxNumberExponent = 400
)

var (
	errDeep   = errors.New("it is nested too deeply")
	errNumber = errors.New("it holds a number that is too long")
)

// decode decodes a JSON text into the types of the schema library. The last of duplicate
// members wins, as in most clients.
func decode(doc wire.Raw) (any, error) {
	d := decoder{jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("it is followed by other text")
	}
	return v, nil
}

type decoder struct{ *jsontext.Decoder }

func (d decoder) value() (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	if d.StackDepth() > maxInstanceDepth {
		return nil, errDeep
	}
	switch t.Kind() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return t.String(), nil
	case '0':
		return number(t.String())
	case 'n':
		return nil, nil
	default:
		return t.Bool(), nil
	}
}

func (d decoder) object() (any, error) {
	out := map[string]any{}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := key.String()
		if out[name], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return out, err
}

func (d decoder) array() (any, error) {
	out := []any{}
	for d.PeekKind() != ']' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.ReadToken()
	return out, err
}

// number returns a number without rounding it.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	digits, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		digits, exponent = text[:i], text[i+1:]
	}
	if e, err := strconv.Atoi(exponent); len(digits) > maxNumberDigits || exponent != "" && (err != nil || e > maxNumberExponent || e < -maxNumberExponent) {
		return nil, errNumber
	}
	return json.Number(text), nil
}

package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/plaintext"
)

// separator is between the time, the level, the message and the fields of a line. Its width is the same everywhere, unlike
// that of a tab.
const separator = "  "

// newConsoleEncoder returns the encoder for people: one line for each entry, with fields as name=value, and no empty ones.
func newConsoleEncoder(cfg zapcore.EncoderConfig) zapcore.Encoder {
	cfg.ConsoleSeparator = separator
	return consoleEncoder{zapcore.NewConsoleEncoder(cfg)}
}

type consoleEncoder struct{ zapcore.Encoder }

// Clone implements zapcore.Encoder.
func (e consoleEncoder) Clone() zapcore.Encoder { return consoleEncoder{e.Encoder.Clone()} }

// EncodeEntry implements zapcore.Encoder.
func (e consoleEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	entry.Message = oneLine(entry.Message)
	kept := make([]zapcore.Field, 0, len(fields))
	for _, f := range fields {
		switch f.Type {
		case zapcore.StringType:
			if f.String == "" {
				continue
			}
		case zapcore.ArrayMarshalerType:
			if list := reflect.ValueOf(f.Interface); list.Kind() == reflect.Slice && list.Len() == 0 {
				continue
			}
		case zapcore.SkipType:
			continue
		}
		kept = append(kept, f)
	}
	line, err := e.Encoder.EncodeEntry(entry, kept)
	if err == nil {
		replaceObject(line, separator+entry.Message+separator)
		escapeHidden(line)
	}
	return line, err
}

// replaceObject replaces the fields of a line, which the encoder writes as a JSON object after the message.
func replaceObject(line *buffer.Buffer, before string) {
	head, object, found := strings.Cut(line.String(), before+"{")
	if !found {
		return
	}
	line.Reset()
	line.AppendString(head + before + plainFields("{"+object) + "\n")
}

// plainFields returns the members of a JSON object as name=value. The object stays as it is if it cannot be read.
func plainFields(object string) string {
	dec := json.NewDecoder(strings.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return strings.TrimSpace(object)
	}
	var out []string
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return strings.TrimSpace(object)
		}
		text := string(value)
		if word := strings.Trim(text, `"`); isWord.MatchString(word) {
			text = word
		}
		out = append(out, fmt.Sprintf("%v=%s", name, text))
	}
	return strings.Join(out, " ")
}

// isWord matches values that need no quotes.
var isWord = regexp.MustCompile(`^[\pL\pN_.,:;/@%+~?&#()*-]+$`)

// oneLine escapes the control characters of ASCII in a message, as the encoder does in fields.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case isControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return r < ' ' }

// escapeHidden escapes the characters of a line that a terminal obeys or hides, as JSON does. Those of
// ASCII that are left are the encoder's own: tabs, the line break and colors.
func escapeHidden(line *buffer.Buffer) {
	if !bytes.ContainsFunc(line.Bytes(), isHidden) {
		return
	}
	var b []byte
	for _, r := range string(line.Bytes()) {
		switch high, low := utf16.EncodeRune(r); {
		case !isHidden(r):
			b = utf8.AppendRune(b, r)
		case high == unicode.ReplacementChar:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	line.Reset()
	_, _ = line.Write(b)
}

func isHidden(r rune) bool { return r > '~' && (!unicode.IsGraphic(r) || plaintext.IsInvisible(r)) }

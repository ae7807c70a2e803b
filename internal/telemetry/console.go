package telemetry

import (
	"reflect"
	"strings"
	"unicode"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/plaintext"
)

// newConsoleEncoder returns the encoder for people: one line for each entry, and no empty fields.
func newConsoleEncoder(cfg zapcore.EncoderConfig) zapcore.Encoder {
	return consoleEncoder{zapcore.NewConsoleEncoder(cfg)}
}

type consoleEncoder struct{ zapcore.Encoder }

// Clone implements zapcore.Encoder.
func (e consoleEncoder) Clone() zapcore.Encoder { return consoleEncoder{e.Encoder.Clone()} }

// EncodeEntry implements zapcore.Encoder.
func (e consoleEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	entry.Message = visible(entry.Message)
	kept := make([]zapcore.Field, 0, len(fields))
	for _, f := range fields {
		switch f.Type {
		case zapcore.StringType:
			if f.String == "" {
				continue
			}
			f.String = visible(f.String)
		case zapcore.ArrayMarshalerType:
			if list := reflect.ValueOf(f.Interface); list.Kind() == reflect.Slice && list.Len() == 0 {
				continue
			}
		case zapcore.SkipType:
			continue
		}
		kept = append(kept, f)
	}
	return e.Encoder.EncodeEntry(entry, kept)
}

// visible returns a text on one line, without characters that a terminal obeys or hides.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || plaintext.IsInvisible(r) }) {
		return s
	}
	return plaintext.Line(s, len(s))
}

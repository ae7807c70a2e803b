package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"mcpgateway/internal/atomicfile"
	"mcpgateway/internal/wire"
)

// maxFile bounds the size of a file that is read.
const maxFile = 64 << 20

// ReadFile decodes a JSON file into value. A file that is too large, is no strict JSON
// or does not fit value is an error, and value is then undefined. The error of a missing
// file is fs.ErrNotExist.
func ReadFile(file string, value any) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() > maxFile {
		return errors.New("the file is too large")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := wire.Check(data, wire.Limits{}, wire.Strict); err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}

// WriteFile writes value as JSON to a file that only this user can read. It replaces the
// file as a whole, so a reader never sees half of it.
func WriteFile(file string, value any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // schemas contain < and >
	if err := enc.Encode(value); err != nil {
		return err
	}
	return atomicfile.WriteLater(file, text.Bytes(), 0o600)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

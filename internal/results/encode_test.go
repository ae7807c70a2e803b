package results

import (
	"bytes"
	"reflect"
	"testing"

	"mcpgateway/internal/wire"
)

func TestEncodeDocument(t *testing.T) {
	for _, d := range []*Document{
		{Text: []byte{}, Parts: []Part{{Kind: kindText}}},
		{Text: []byte("{\"a\": 1}\nzwei"), Parts: []Part{
			{Kind: kindText, MIMEType: "a/b", End: 8, JSON: true}, {Kind: kindResource, URI: "x:<1>", Start: 9, End: 13},
			{Kind: kindResource, Start: 13, End: 13, Blob: []byte{0, 1, 2}}, {Kind: kindResource, Start: 13, End: 13, Blob: []byte{}},
		}, Items: []Item{{wire.ItemTool, "up", "up__a", "a"}}},
	} {
		data := d.Append(nil)
		got, err := DecodeDocument(data)
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%+v became %+v, %v", d, got, err)
		}
		for n := range data {
			if got, err := DecodeDocument(data[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are %+v", n, len(data), got)
			}
		}
		if _, err := DecodeDocument(append(bytes.Clone(data), 'x')); err == nil {
			t.Error("there may be something behind a document")
		}
	}
}

// A document that is read from elsewhere can be read in parts, or is refused.
func FuzzDecodeDocument(f *testing.F) {
	f.Add((&Document{Text: []byte("text"), Parts: []Part{{Kind: kindText, End: 4}}}).Append(nil))
	f.Add([]byte("\x2e{\"text\":1,\"parts\":[{\"start\":-1,\"end\":9}]}xxxxxx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := DecodeDocument(data)
		if err != nil {
			return
		}
		d.Size()
		for _, query := range []string{"", "?lines=1-2", "?range=0-1", "/1", "/2?grep=x", "?pointer=/a", "/1?pointer=/a/0"} {
			if q, err := ParseQuery(query); err == nil {
				_, _ = d.Read(t.Context(), &q, 100)
			}
		}
	})
}

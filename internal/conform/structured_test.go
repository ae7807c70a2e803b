package conform

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// TestRepairLeavesImageAlone repairs the result that read_media_file of the filesystem
// server has for an image of 300 KB: the image as a block, and the block again as
// structuredContent. Its Base64 must not become a text for the model.
func TestRepairLeavesImageAlone(t *testing.T) {
	image := `{"type":"image","data":"` + strings.Repeat("iVBORw0KGgoA", 300*1024/9) + `","mimeType":"image/png"}`
	result := wire.Raw(`{"content":[` + image + `],"structuredContent":{"content":[` + image + `]}}`)
	s := ResultChecker{Mode: Repair, Revision: wire.Rev20251125, Method: wire.MethodToolsCall}
	v := s.Check(result)
	if len(v.Result) != len(result) {
		t.Errorf("%d bytes became %d", len(result), len(v.Result))
	}
	if len(v.Violations) != 1 || v.Violations[0].Kind != StructuredAlone || v.Violations[0].Repaired {
		t.Errorf("found %v", v.Violations)
	}
}

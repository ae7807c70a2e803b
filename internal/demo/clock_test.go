package demo

//lint:file-ignore SA1019 log messages are deprecated by spec 2026-07-28 but in force, and the gateway relays them.

import (
	"bytes"
	"context"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// In a synctest bubble the time is 2000-01-01 00:00:00 UTC, and it advances when all
// goroutines wait.

func TestClockTools(t *testing.T) {
	for era, revision := range eras {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := connect(t, find(t, "clock"), revision, nil)

				res := call(t, session, &mcp.CallToolParams{Name: "now", Arguments: map[string]any{"zone": "Asia/Tokyo"}})
				want := map[string]any{"zone": "Asia/Tokyo", "time": "2000-01-01T09:00:00+09:00", "unix": 946684800.0, "offset": 32400.0}
				if diff := cmp.Diff(want, res.StructuredContent); diff != "" {
					t.Errorf("now (-want +got):\n%s", diff)
				}
				for _, zone := range []string{"Mars/Base", "../../etc/passwd"} {
					res = call(t, session, &mcp.CallToolParams{Name: "now", Arguments: map[string]any{"zone": zone}})
					if got := text(t, res, 0); !res.IsError || !strings.HasPrefix(got, "unknown time zone") {
						t.Errorf("zone %s: %q, error %t", zone, got, res.IsError)
					}
				}

				res = call(t, session, &mcp.CallToolParams{Name: "search", Arguments: map[string]any{"query": "new y"}})
				if diff := cmp.Diff(map[string]any{"zones": []any{"America/New_York"}}, res.StructuredContent); diff != "" {
					t.Errorf("search (-want +got):\n%s", diff)
				}

				res = call(t, session, &mcp.CallToolParams{Name: "face", Arguments: map[string]any{"zone": "Asia/Tokyo"}})
				picture, ok := res.Content[0].(*mcp.ImageContent)
				if !ok || picture.MIMEType != faceMIME {
					t.Fatalf("face gives %+v, want a PNG", res.Content[0])
				}
				checkFace(t, picture.Data)
				if got := text(t, res, 1); got != "09:00 JST" {
					t.Errorf("face says %q, want 09:00 JST", got)
				}
			})
		})
	}
}

// checkFace checks that a picture shows nine o'clock: the hour hand points left.
func checkFace(t *testing.T, data []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	const center, hand = faceSize / 2, faceSize / 8
	left, right := facePalette.Index(img.At(center-hand, center)), facePalette.Index(img.At(center+hand, center))
	if left != faceHands || right != faceBackground {
		t.Error("the hour hand does not point to nine")
	}
}

func TestClockResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t, find(t, "clock"), legacyRevision, nil)
		res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "clock://now/Europe/Berlin"})
		if err != nil || res.Contents[0].Text != "Sat, 01 Jan 2000 01:00:00 +0100" {
			t.Errorf("by template: %+v, %v", res, err)
		}
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "clock://now/Mars"}); err == nil {
			t.Error("the time on Mars was read")
		}
		res, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: faceURI})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(bytes.NewReader(res.Contents[0].Blob)); err != nil {
			t.Errorf("the face: %v", err)
		}
		completed, err := session.Complete(t.Context(), &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: zoneTemplate},
			Argument: mcp.CompleteParamsArgument{Name: "zone", Value: "Europe/"},
		})
		want := []string{"Europe/Berlin", "Europe/Istanbul", "Europe/London", "Europe/Madrid", "Europe/Paris"}
		if err != nil || !cmp.Equal(want, completed.Completion.Values) {
			t.Errorf("zones: %+v, %v; want %v", completed, err, want)
		}
	})
}

func TestKnownZonesExist(t *testing.T) {
	for _, zone := range knownZones {
		if _, err := timeIn(zone); err != nil {
			t.Error(err)
		}
	}
}

func TestCountdownReports(t *testing.T) {
	for era, revision := range eras {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				progress := make(chan float64, 8)
				logs := make(chan any, 8)
				session := connect(t, find(t, "clock"), revision, &mcp.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
						progress <- req.Params.Progress
					},
					LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { logs <- req.Params.Data },
				})
				params := &mcp.CallToolParams{Name: "countdown", Arguments: map[string]any{"seconds": 2}}
				if revision == firstModern {
					params.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "info"}
				} else if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
					t.Fatal(err)
				}
				params.SetProgressToken("p")

				begin := time.Now()
				res := call(t, session, params)
				if diff := cmp.Diff(map[string]any{"counted": 2.0}, res.StructuredContent); diff != "" {
					t.Errorf("structured content (-want +got):\n%s", diff)
				}
				if took := time.Since(begin); took != 2*time.Second {
					t.Errorf("took %s, want 2s", took)
				}
				for i := range 2 {
					if got := <-progress; got != float64(i+1) {
						t.Errorf("progress %v, want %d", got, i+1)
					}
				}
				if got := <-logs; got != "1 of 2 seconds went by" {
					t.Errorf("logged %v", got)
				}
				<-logs

				// Without a token and a level there is neither.
				if revision == firstModern {
					call(t, session, &mcp.CallToolParams{Name: "countdown", Arguments: map[string]any{"seconds": 1}})
					synctest.Wait()
					if len(progress) != 0 || len(logs) != 0 {
						t.Errorf("unasked: %d progress notifications, %d log messages", len(progress), len(logs))
					}
				}
			})
		})
	}
}

func TestCountdownCanBeCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 64)
		session := connect(t, find(t, "clock"), legacyRevision, &mcp.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { started <- struct{}{} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		params := &mcp.CallToolParams{Name: "countdown", Arguments: map[string]any{"seconds": 60}}
		params.SetProgressToken(1)
		go func() {
			<-started
			cancel()
		}()
		if _, err := session.CallTool(ctx, params); err == nil {
			t.Error("the canceled call gave a result")
		}
		synctest.Wait()
		for len(started) > 0 {
			<-started
		}
		time.Sleep(5 * time.Second) // of the bubble: a countdown that still ran would report
		synctest.Wait()
		if got := len(started); got != 0 {
			t.Errorf("%d progress notifications after the cancellation", got)
		}
	})
}

func TestCountdownIsBounded(t *testing.T) {
	session := connect(t, find(t, "clock"), legacyRevision, nil)
	for _, seconds := range []int{-1, 0, 61} {
		res := call(t, session, &mcp.CallToolParams{Name: "countdown", Arguments: map[string]any{"seconds": seconds}})
		if !res.IsError {
			t.Errorf("%d seconds were accepted", seconds)
		}
	}
}

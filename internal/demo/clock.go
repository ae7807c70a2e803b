package demo

//lint:file-ignore SA1019 log messages are deprecated by spec 2026-07-28 but in force, and the gateway relays them.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // container images without a zone database shall have the zones too

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	zoneTemplate = "clock://now/{+zone}"
	zonePrefix   = "clock://now/"
	faceURI      = "clock://face"
	faceMIME     = "image/png"

	maxCountdown     = 60 // seconds
	defaultCountdown = 5
)

// knownZones are the zones that search and completion offer. Every IANA zone is accepted.
var knownZones = []string{
	"Africa/Cairo", "Africa/Lagos", "Africa/Nairobi",
	"America/Chicago", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Sao_Paulo",
	"Asia/Dubai", "Asia/Jakarta", "Asia/Kolkata", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo",
	"Australia/Sydney",
	"Europe/Berlin", "Europe/Istanbul", "Europe/London", "Europe/Madrid", "Europe/Paris",
	"Pacific/Auckland", "UTC",
}

func newClock() Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "clock", Title: "Clock", Version: version}, &mcp.ServerOptions{
		Instructions:      "Tells the time in any IANA time zone. countdown is slow and reports its progress.",
		CompletionHandler: completeZone,
	})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	mcp.AddTool(s, &mcp.Tool{
		Name: "now", Title: "The time", Description: "Tells the time in a time zone.", Annotations: readOnly,
	}, now)
	mcp.AddTool(s, &mcp.Tool{
		Name: "search", Title: "Search time zones", Description: "Finds well-known time zones by a part of their name.", Annotations: readOnly,
	}, searchZones)
	mcp.AddTool(s, &mcp.Tool{
		Name: "face", Title: "A clock's face", Description: "Draws the time in a time zone as an analog clock.", Annotations: readOnly,
	}, face)
	mcp.AddTool(s, &mcp.Tool{
		Name: "countdown", Title: "Count down",
		Description: "Counts seconds down, with a progress notification and a log message for each.", Annotations: readOnly,
	}, countdown)
	s.AddResource(&mcp.Resource{
		URI: faceURI, Name: "face", Title: "A clock's face in UTC", Description: "The current time as a picture.", MIMEType: faceMIME,
	}, readFace)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: zoneTemplate, Name: "now", Title: "The time in a time zone", MIMEType: "text/plain",
	}, readNow)

	return Server{
		Name: "clock", Title: "Clock",
		Description: "the time, with structured results, pictures, progress and log messages",
		server:      s,
	}
}

// timeIn is the current time in the zone; an empty name means UTC.
func timeIn(zone string) (time.Time, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("unknown time zone %q: give an IANA name such as Europe/Berlin", zone)
	}
	return time.Now().In(loc), nil
}

type zoneInput struct {
	Zone string `json:"zone,omitempty" jsonschema:"an IANA time zone such as Europe/Berlin; UTC if absent"`
}

type nowOutput struct {
	Zone   string `json:"zone"`
	Time   string `json:"time" jsonschema:"RFC 3339"`
	Unix   int64  `json:"unix" jsonschema:"seconds since 1970-01-01 UTC"`
	Offset int    `json:"offset" jsonschema:"seconds east of UTC"`
}

func now(_ context.Context, _ *mcp.CallToolRequest, in zoneInput) (*mcp.CallToolResult, nowOutput, error) {
	t, err := timeIn(in.Zone)
	if err != nil {
		return nil, nowOutput{}, err
	}
	_, offset := t.Zone()
	return nil, nowOutput{Zone: t.Location().String(), Time: t.Format(time.RFC3339), Unix: t.Unix(), Offset: offset}, nil
}

type zoneSearchInput struct {
	Query string `json:"query" jsonschema:"a part of the zone's name, in any case"`
}

type zoneSearchOutput struct {
	Zones []string `json:"zones"`
}

func searchZones(_ context.Context, _ *mcp.CallToolRequest, in zoneSearchInput) (*mcp.CallToolResult, zoneSearchOutput, error) {
	query := strings.ToLower(strings.ReplaceAll(in.Query, " ", "_"))
	zones := slices.DeleteFunc(slices.Clone(knownZones), func(z string) bool {
		return !strings.Contains(strings.ToLower(z), query)
	})
	return nil, zoneSearchOutput{Zones: zones}, nil
}

func face(_ context.Context, _ *mcp.CallToolRequest, in zoneInput) (*mcp.CallToolResult, any, error) {
	t, err := timeIn(in.Zone)
	if err != nil {
		return nil, nil, err
	}
	png, err := drawFace(t)
	if err != nil {
		return nil, nil, fmt.Errorf("drawing the clock: %w", err)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{Data: png, MIMEType: faceMIME},
		&mcp.TextContent{Text: t.Format("15:04 MST")},
	}}, nil, nil
}

type countdownInput struct {
	Seconds *int `json:"seconds,omitempty" jsonschema:"where to begin, 1 to 60; 5 if absent"`
}

type countdownOutput struct {
	Counted int `json:"counted" jsonschema:"how many seconds went by"`
}

// countdown reports its progress after each second. It ends early, with the
// context's error, when the call is canceled.
func countdown(ctx context.Context, req *mcp.CallToolRequest, in countdownInput) (*mcp.CallToolResult, countdownOutput, error) {
	seconds := defaultCountdown
	if in.Seconds != nil {
		seconds = *in.Seconds
	}
	if seconds < 1 || seconds > maxCountdown {
		return nil, countdownOutput{}, fmt.Errorf("seconds is %d, it must be between 1 and %d", seconds, maxCountdown)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for counted := range seconds {
		select {
		case <-ctx.Done():
			return nil, countdownOutput{}, context.Cause(ctx)
		case <-ticker.C:
		}
		if err := report(ctx, req, counted+1, seconds); err != nil {
			return nil, countdownOutput{}, err
		}
	}
	return nil, countdownOutput{Counted: seconds}, nil
}

// report sends a log message, which the SDK drops below the client's level, and
// progress if the client asked for it.
func report(ctx context.Context, req *mcp.CallToolRequest, counted, total int) error {
	text := fmt.Sprintf("%d of %d seconds went by", counted, total)
	logged := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "countdown", Data: text})
	token := req.Params.GetProgressToken()
	if token == nil {
		return logged
	}
	return errors.Join(logged, req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: float64(counted), Total: float64(total), Message: text,
	}))
}

func readFace(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	png, err := drawFace(time.Now().UTC())
	if err != nil {
		return nil, fmt.Errorf("drawing the clock: %w", err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: faceURI, MIMEType: faceMIME, Blob: png}}}, nil
}

func readNow(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	zone, _ := strings.CutPrefix(req.Params.URI, zonePrefix)
	t, err := timeIn(zone)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, MIMEType: "text/plain", Text: t.Format(time.RFC1123Z)},
	}}, nil
}

func completeZone(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	if req.Params.Ref.URI != zoneTemplate || req.Params.Argument.Name != "zone" {
		return completion(nil, ""), nil
	}
	return completion(slices.Clone(knownZones), req.Params.Argument.Value), nil
}

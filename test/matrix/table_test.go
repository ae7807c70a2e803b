package matrix

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Marks of a cell. Letters are reasons.
const (
	works = "✓"
	fails = "✗"
	// notRun is a row that needs a session which all replicas share.
	notRun = "–"
)

// file is the parsed expected.md.
type file struct {
	text    string
	tables  map[string]*table // by the heading above the table
	reasons map[string]reason // by letter
}

// table has the results of the features with each server, for the clients of its first cell.
type table struct {
	clients, servers []string
	rows             []string
	marks            map[string][]string // marks of the clients by row and server, see at
}

// reason is the reason of a failure, with a part of the error that the test must observe.
type reason struct{ text, seen string }

func at(row, server string) string { return row + "\x00" + server }

// The last words of a reason, in backquotes and brackets, are the part of the error.
var reasonLine = regexp.MustCompile("^- \\*\\*([a-z])\\*\\* (.*\\(`([^`]+)`\\)\\.)$")

// readExpected parses the headings, tables and reasons of expected.md and ignores the rest.
func readExpected(t *testing.T) *file {
	t.Helper()
	text, err := os.ReadFile("expected.md")
	if err != nil {
		t.Fatal(err)
	}
	f := &file{text: string(text), tables: make(map[string]*table), reasons: make(map[string]reason)}
	var heading string
	for i, line := range strings.Split(f.text, "\n") {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.TrimLeft(title, "# ")
			continue
		}
		if found := reasonLine.FindStringSubmatch(line); found != nil {
			f.reasons[found[1]] = reason{found[2], found[3]}
			continue
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		current := f.tables[heading]
		if current == nil {
			f.tables[heading] = &table{clients: strings.Split(cells[0], " · "), servers: cells[1:], marks: make(map[string][]string)}
			continue
		}
		if len(cells) != len(current.servers)+1 {
			t.Fatalf("expected.md:%d: %d cells, the table has %d columns", i+1, len(cells), len(current.servers)+1)
		}
		current.rows = append(current.rows, cells[0])
		for n, server := range current.servers {
			marks := strings.Fields(cells[n+1])
			if len(marks) != len(current.clients) {
				t.Fatalf("expected.md:%d: %q has %d marks, the table has %d clients", i+1, cells[n+1], len(marks), len(current.clients))
			}
			current.marks[at(cells[0], server)] = marks
		}
	}
	return f
}

// String returns the table in the format of expected.md.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|---|%s\n", strings.Join(t.clients, " · "), strings.Join(t.servers, " | "), strings.Repeat("---|", len(t.servers)))
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, server := range t.servers {
			fmt.Fprintf(&b, " %s |", strings.Join(t.marks[at(row, server)], " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// mark returns the observed mark of a cell for a complaint, and a message if the mark differs from the expected one.
func (f *file) mark(expected, wrong string) (mark, complaint string) {
	if wrong == "" {
		if expected != works {
			return works, fmt.Sprintf("it works, where %q is expected", expected)
		}
		return works, ""
	}
	if reason, ok := f.reasons[expected]; ok && strings.Contains(wrong, reason.seen) {
		return expected, ""
	}
	return fails, fmt.Sprintf("%s; expected %q", wrong, expected)
}

func TestMark(t *testing.T) {
	f := &file{reasons: map[string]reason{"a": {"no roots", "-32601"}}}
	for _, test := range []struct{ name, expected, wrong, mark, complaint string }{
		{"works as expected", works, "", works, ""},
		{"fails unexpectedly", works, "step 1, error -32601", fails, `step 1, error -32601; expected "✓"`},
		{"fails as expected", "a", "step 1, error -32601", "a", ""},
		{"fails for another reason", "a", "step 1, error -32602", fails, `step 1, error -32602; expected "a"`},
		{"works unexpectedly", "a", "", works, `it works, where "a" is expected`},
		{"unknown reason", "z", "step 1", fails, `step 1; expected "z"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			mark, complaint := f.mark(test.expected, test.wrong)
			if mark != test.mark || complaint != test.complaint {
				t.Errorf("got %q, %q; want %q, %q", mark, complaint, test.mark, test.complaint)
			}
		})
	}
}

// The printed tables can be copied into expected.md.
func TestTablesRoundTrip(t *testing.T) {
	f := readExpected(t)
	for heading, table := range f.tables {
		if !strings.Contains(f.text, "\n"+table.String()) {
			t.Errorf("%s: formatted again:\n%s", heading, table)
		}
		for cell, marks := range table.marks {
			for _, mark := range marks {
				if _, ok := f.reasons[mark]; !ok && mark != works {
					t.Errorf("%s, %q: unknown reason %q", heading, cell, mark)
				}
			}
		}
	}
}

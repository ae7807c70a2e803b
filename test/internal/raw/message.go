package raw

import (
	"encoding/json"
	"fmt"
)

// Message is one JSON-RPC message with the text of each member of its envelope.
type Message struct {
	Text    string
	members map[string]json.RawMessage
}

// Read parses the envelope of a message.
func Read(text string) (Message, error) {
	m := Message{Text: text}
	if err := json.Unmarshal([]byte(text), &m.members); err != nil {
		return m, fmt.Errorf("invalid message: %w: %.300s", err, text)
	}
	return m, nil
}

// Member returns the text of a member of the envelope, "" if it is missing.
func (m Message) Member(name string) string { return string(m.members[name]) }

// Names returns the names of the envelope's members.
func (m Message) Names() []string {
	var names []string
	for name := range m.members {
		names = append(names, name)
	}
	return names
}

// Method returns the method, "" for responses.
func (m Message) Method() string {
	var method string
	_ = json.Unmarshal(m.members["method"], &method) // a method that is no string counts as missing
	return method
}

// Fault is a JSON-RPC error object.
type Fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Error implements error.
func (f *Fault) Error() string { return fmt.Sprintf("%d: %s %s", f.Code, f.Message, f.Data) }

// Fault returns the error of the message, nil if it has none.
func (m Message) Fault() *Fault {
	text, ok := m.members["error"]
	if !ok {
		return nil
	}
	var f Fault
	if err := json.Unmarshal(text, &f); err != nil {
		f.Message = fmt.Sprintf("not an error object: %s", text)
	}
	return &f
}

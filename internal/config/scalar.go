package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// scalar expands and decodes one scalar, and reports whether it is valid.
func (d *decoder) scalar(n *yaml.Node, p configfile.Path, f *field, v reflect.Value) bool {
	if n.Kind != yaml.ScalarNode {
		hint := ""
		if n.Kind == yaml.SequenceNode {
			hint = insteadOfList[p.Pattern]
		}
		d.Errorf(n, p, "must be %s, not %s%s", f.want(), configfile.KindOf(n), hint)
		return false
	}
	text, expanded, err := d.vars.expand(n.Value)
	if missing, ok := errors.AsType[unsetError](err); ok && inUpstream(p) {
		d.leaveUnset(n, p, f, v, text, missing)
		return false
	}
	if d.hosts && errors.Is(err, errNoReference) { // such as ${workspaceFolder:app}
		err = fmt.Errorf("%w, or %s", err, makeOne)
	}
	if err != nil {
		d.Errorf(n, p, "%v", err)
		return false
	}
	if err := f.accepts(n, expanded); err != nil {
		d.Errorf(n, p, "%v", err)
		return false
	}
	if err := f.set(v, text); err != nil {
		// The error shows the text of the file, not its expansion, which may be secret.
		if f.typ == reflect.TypeFor[Secret]() || hiddenFormats[f.format] {
			d.Errorf(n, p, "%v", err)
		} else {
			d.Errorf(n, p, "%v, not %s%s", err, configfile.Quote(n.Value), insteadOf[f.typ][n.Value])
		}
		return false
	}
	d.warnOfShellVariable(n, p, f)
	return true
}

// warnOfShellVariable warns of $NAME where a value is wanted that people keep in variables: no shell reads it.
func (d *decoder) warnOfShellVariable(n *yaml.Node, p configfile.Path, f *field) {
	var at *regexp.Regexp
	switch {
	case f.typ == reflect.TypeFor[Secret]() || hiddenFormats[f.format]:
		at = shellVariable
	case shellWords[p.Pattern]:
		at = firstShellVariable
	default:
		return
	}
	for _, found := range at.FindAllStringSubmatch(n.Value, -1) {
		if _, set := d.vars.src.env(found[1]); set {
			d.Warnf(n, p, "$%s stands for itself here; write ${%s} for the value of the variable", found[1], found[1])
		}
	}
}

var (
	shellVariable      = regexp.MustCompile(`(?:^|[^$A-Za-z0-9_])\$([A-Za-z_][A-Za-z0-9_]*)`)
	firstShellVariable = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)`) // elsewhere it may be for a shell that is started
	shellWords         = map[string]bool{"upstreams.*.command": true, "upstreams.*.args[]": true, "upstreams.*.cwd": true}
)

// warnOfEmptyHeader warns of a header whose value, or the part of it after an authentication scheme, is empty because the
// variables to which it refers are: the server refuses the credentials, which look right in the file. A header with
// ${NAME:-} is empty on purpose.
func (d *decoder) warnOfEmptyHeader(n *yaml.Node, p configfile.Path, value string) {
	scheme := AuthScheme(value)
	if len(d.vars.empty) == 0 || strings.TrimSpace(value[len(scheme):]) != "" {
		return
	}
	is := "has no value"
	if scheme != "" {
		is = "has nothing after " + strings.TrimSpace(scheme)
	}
	if refs := d.vars.empty; len(refs) > 1 {
		d.Warnf(n, p, "%s: %s are empty; give them values", is, strings.Join(refs, " and "))
	} else {
		d.Warnf(n, p, "%s: %s is empty; give it a value", is, refs[0])
	}
}

// insteadOf says what to write in place of values that people expect.
var insteadOf = map[reflect.Type]map[string]string{
	reflect.TypeFor[Effect](): {"limit": "; a limit belongs to a rule that allows: write effect: allow, limit: {rate: 10/m}"},
}

// insteadOfList says, by the pattern of a path, what to write in place of a list.
var insteadOfList = map[string]string{
	"upstreams.*.command": "; what follows the program belongs to args: write command: npx, args: [-y, some-server]",
}

// hiddenFormats are the formats whose text errors do not show: a URL may contain a password, and a
// user may have written a key in place of its digest.
var hiddenFormats = map[string]bool{"url": true, "base-url": true, "secure-url": true, "issuer": true, "sha256": true}

// accepts checks that a scalar has the type of the field. A number in place of a string is an error, since
// YAML may read an unquoted value (1.10, 0x1F, yes) differently than the user expects. Expanded text
// has no type, and durations and sizes are unambiguous.
func (f *field) accepts(n *yaml.Node, expanded bool) error {
	if !knownTags[n.Tag] {
		return fmt.Errorf("the tag %s is not supported here", configfile.Quote(n.Tag))
	}
	if expanded {
		return nil
	}
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var ok bool
	switch {
	case t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[Size]():
		ok = n.Tag != "!!null"
	case t.Kind() == reflect.Bool:
		ok = n.Tag == "!!bool"
	case t.Kind() == reflect.Int:
		ok = n.Tag == "!!int" || n.Tag == "!!float" && wholeNumber.MatchString(n.Value) // one that is too large for YAML
	case t.Kind() == reflect.Float64:
		ok = n.Tag == "!!int" || n.Tag == "!!float"
	default:
		ok = n.Tag == "!!str" || n.Tag == "!!timestamp" || n.Tag == "!!merge" || n.Tag == "!!bool" && f.hasBooleans()
		if !ok && !configfile.IsNull(n) {
			if _, err := f.text(n.Value); err != nil { // quotes would not help
				return fmt.Errorf("%w, not %s", err, configfile.KindOf(n))
			}
			return fmt.Errorf("must be a string, not %s; write it in quotes", configfile.KindOf(n))
		}
	}
	switch {
	case ok:
		return nil
	case n.Tag == "!!str" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && f.set(reflect.New(f.typ).Elem(), n.Value) == nil:
		return fmt.Errorf("must be %s, not a string; write it without quotes", f.want())
	}
	return fmt.Errorf("must be %s, not %s", f.want(), configfile.KindOf(n))
}

var knownTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!timestamp": true, "!!merge": true,
}

// want describes the values of a field.
func (f *field) want() string {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration with a unit, such as 60s or 5m"
	case t == reflect.TypeFor[Size]():
		return "a size, such as 16MiB"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case len(f.enum) > 0:
		return orWords(f.enum)
	}
	return "a string"
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// set parses a text and sets the field. Errors begin with "must" and do not contain the text.
func (f *field) set(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case Secret:
		if f.format != "" {
			var err error
			if text, err = formats[f.format](text); err != nil {
				return err
			}
		}
		v.Set(reflect.ValueOf(NewSecret(text)))
		return nil
	case time.Duration:
		if text == "0" && f.min == "0s" {
			text = "0s" // it means that something is off
		}
		dur, err := parseDuration(text)
		if err != nil {
			return err
		}
		return setNumber(f, v, dur, parseDuration)
	case Size:
		size, err := parseSize(text)
		if err != nil {
			return err
		}
		return setNumber(f, v, size, parseSize)
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		if err := f.set(elem.Elem(), text); err != nil {
			return err
		}
		v.Set(elem)
	case reflect.Bool:
		if text = strings.ToLower(text); text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		v.SetBool(text == "true")
	case reflect.Int:
		i, err := parseInt(text)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("must be between %s and %s", cmp.Or(f.min, strconv.Itoa(math.MinInt)), cmp.Or(f.max, strconv.Itoa(math.MaxInt)))
		case err != nil:
			return err
		}
		return setNumber(f, v, i, parseInt)
	case reflect.Float64:
		number, err := strconv.ParseFloat(text, 64)
		least, _ := strconv.ParseFloat(f.min, 64)
		most, _ := strconv.ParseFloat(f.max, 64)
		if err != nil || !(number >= least && number <= most) { // not for NaN
			return fmt.Errorf("must be a number between %s and %s", f.min, f.max)
		}
		v.SetFloat(number)
	case reflect.String:
		text, err := f.text(text)
		if err != nil {
			return err
		}
		v.SetString(text)
	default:
		panic("config: the schema has a type that cannot be decoded: " + v.Type().String())
	}
	return nil
}

// hasBooleans reports whether true and false are among the values of a field that has others too.
func (f *field) hasBooleans() bool { return slices.Contains(f.enum, "true") }

// text checks a string against the values or the format of the field, and returns its normal form.
func (f *field) text(text string) (string, error) {
	if len(f.enum) > 0 {
		if f.hasBooleans() {
			text = strings.ToLower(text)
		}
		if !slices.Contains(f.enum, text) {
			return "", fmt.Errorf("must be %s", orWords(f.enum))
		}
		return text, nil
	}
	if f.format == "" {
		if strings.ContainsRune(text, 0) {
			return "", errors.New("must not contain a null byte")
		}
		return text, nil
	}
	return formats[f.format](text)
}

// setNumber sets a field to a value within its bounds.
func setNumber[T int | Size | time.Duration](f *field, v reflect.Value, n T, parse func(string) (T, error)) error {
	low, hasLow := bound(f.min, parse)
	high, hasHigh := bound(f.max, parse)
	switch {
	case (!hasLow || n >= low) && (!hasHigh || n <= high):
		v.SetInt(int64(n))
		return nil
	case !hasHigh:
		return fmt.Errorf("must be at least %s", f.min)
	}
	return fmt.Errorf("must be between %s and %s", f.min, f.max)
}

// bound parses a bound of the schema. It panics if the bound is invalid, since the schema is part of the
// program.
func bound[T any](text string, parse func(string) (T, error)) (v T, given bool) {
	if text == "" {
		return v, false
	}
	v, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("config: bound %s: %v", text, err))
	}
	return v, true
}

func parseInt(text string) (int, error) {
	if !wholeNumber.MatchString(text) {
		return 0, errors.New("must be a whole number")
	}
	return strconv.Atoi(text)
}

var bareNumber = regexp.MustCompile(`^[-+]?[0-9.]+$`)

// parseDuration parses a duration of Go, but no number without a unit.
func parseDuration(text string) (time.Duration, error) {
	dur, err := time.ParseDuration(text)
	if err != nil || bareNumber.MatchString(text) {
		return 0, errors.New("must be a duration with a unit, such as 60s, 5m or 500ms")
	}
	return dur, nil
}

// orWords lists values, the empty one excepted: a, b or c.
func orWords(values []string) string {
	values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	n := len(values) - 1
	return strings.Join(values[:n], ", ") + " or " + values[n]
}

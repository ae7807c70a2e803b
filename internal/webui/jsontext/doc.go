// Package jsontext writes JSON for people to read and to edit.
package jsontext

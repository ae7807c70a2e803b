package search

import (
	"slices"
	"strings"
	"testing"
)

// wordsOf returns the words of a text. Wholes have an asterisk.
func wordsOf(text string) []string {
	var out []string
	split(text, func(word string, kind wordKind) {
		if kind == whole {
			word += "*"
		}
		out = append(out, word)
	})
	return out
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"create_issue":             "create issue",
		"getUserById":              "get user by id getuserbyid*",
		"HTTPServer":               "http server httpserver*",
		"parseJSON2YAML":           "parse json yaml parsejson2yaml*",
		"base64-encode":            "base 64 base64* encode",
		"s3 bucket":                "s3 bucket",
		"k8s":                      "k8s",
		"PRs and URLs":             "prs and urls",
		"isS":                      "is iss*",
		"ec2":                      "ec ec2*",
		"a b":                      "a b",
		"GitHub's":                 "git hub github*",
		"you'll  don’t 'quoted'":   "you don quoted",
		"it's 5 o'clock":           "it 5 o clock",
		"2024-01-31T10:00":         "2024 01 31 10 31t10* 00",
		"Über naïve":               "uber naive",
		"ＡＢＣ":                      "abc",
		"搜索文件 search":              "搜 索 搜索* 文 索文* 件 文件* search",
		"查":                        "查",
		"파일 검색":                    "파 일 파일* 검 색 검색*",
		"read文件":                   "read 文 件 文件*",
		"البحث عن الملفات":         "البحث عن الملفات",
		"مُحَمَّد":                 "محمد",
		"поиск файлов":             "поиск фаилов",
		"zero\u200bwidth":          "zerowidth",
		"\x00\x1b[31mred\x7fblue":  "31 mred 31mred* blue",
		"😀 smile":                  "smile",
		"\xff\xfebroken\xc3":       "broken",
		"---___...":                "",
		"\u0301\u0301":             "",
		"ไฟล์":                     "ไ ฟ ไฟ* ล ฟล*",
		strings.Repeat("x", 5000):  strings.Repeat("x", maxWord),
		strings.Repeat("é", 5000):  strings.Repeat("e", maxWord/2),
		strings.Repeat("aB", 4000): "",
	} {
		got := wordsOf(text)
		if len(text) == 8000 {
			if len(got) > 8000 || slices.ContainsFunc(got, func(w string) bool { return len(w) > maxWord+1 }) {
				t.Errorf("a long run of changes of case: %d words", len(got))
			}
			continue
		}
		if strings.Join(got, " ") != want {
			t.Errorf("split(%.60q) = %q, want %q", text, got, want)
		}
	}
}

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"Lists the repositories of a user": "list repositori user",
		"repo":                             "repositori",
		"PRs":                              "pull request",
		"authorized authors":               "authz author",
		"analyses":                         "analysi",
		"please could you":                 "",
	} {
		var s stemmer
		var got []string
		s.terms(text, true, func(term string, _ wordKind) { got = append(got, term) })
		if strings.Join(got, " ") != want {
			t.Errorf("terms(%q) = %q, want %q", text, got, want)
		}
	}
}

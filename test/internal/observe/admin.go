package observe

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mcpgateway/test/internal/rig"
)

// within bounds a request to the admin address.
const within = 2 * time.Minute

// Admin requests a page of the admin address.
func Admin(g *rig.Gateway, page string) (status int, body string, err error) {
	return send(http.MethodGet, g.Admin+page)
}

// Reload makes the gateway read its configuration again.
func Reload(g *rig.Gateway) error {
	status, body, err := send(http.MethodPost, g.Admin+"/-/reload")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("reload: %d %s", status, body)
	}
	return err
}

func send(verb, url string) (status int, body string, err error) {
	request, err := http.NewRequest(verb, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metric returns the value of a series in the text format.
func Metric(g *rig.Gateway, series string) (float64, error) {
	_, body, err := Admin(g, "/metrics")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("no series %s", series)
}

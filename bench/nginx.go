package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// findNginx returns the binary of nginx: the machine's, or the one that
// bench/nginx.sh unpacked.
func findNginx() (string, error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/nginx", ".cache/nginx/usr/sbin/nginx", "../.cache/nginx/usr/sbin/nginx"} {
		if _, err := os.Stat(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New(`nginx is missing: run "bench/nginx.sh" on Debian, install nginx, or leave it out with -nginx=false`)
}

// nginxConfig is a plain proxy with connections kept to the upstream. The
// placeholders are: folder, listening address with options, scheme and address of
// the upstream, user, folder of certificates, name of the upstream in its
// certificate.
const nginxConfig = `
daemon off;
worker_processes auto;
worker_rlimit_nofile 16384;
pid %[1]s/nginx.pid;
error_log stderr warn;
%[5]s
events { worker_connections 4096; }
http {
	access_log off;
	client_max_body_size 8m;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 100000000;
	upstream target {
		server %[4]s;
		keepalive 512;
		keepalive_requests 100000000;
	}
	server {
		listen %[2]s;
		ssl_certificate %[6]s/cert.pem;
		ssl_certificate_key %[6]s/key.pem;
		location / {
			proxy_pass %[3]s://target;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_ssl_trusted_certificate %[6]s/cert.pem;
			proxy_ssl_verify on;
			proxy_ssl_name %[7]s;
		}
	}
}
`

// startNginx starts nginx as a proxy in front of an upstream. options follow the
// address in its listen directive.
func (s *stage) startNginx(ctx context.Context, upstream, options string) (url string, pid int, err error) {
	dir := s.newFile("nginx")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", 0, err
	}
	target, err := parseTarget(upstream)
	if err != nil {
		return "", 0, err
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // the workers write into dir
	}
	// Another program may take the free port before nginx does.
	for range 5 {
		address, err := freePort()
		if err != nil {
			return "", 0, err
		}
		config := fmt.Sprintf(nginxConfig, dir, strings.TrimSpace(address+" "+options), target.Scheme, target.Host, user, s.certs.Dir, certName)
		if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
			return "", 0, err
		}
		p, err := startProcess(exec.CommandContext(ctx, s.nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf")), s.newFile("nginx.log"))
		if err != nil {
			return "", 0, err
		}
		if err := awaitPort(ctx, p, address); err != nil {
			failure := errors.Join(p.explain(err), p.Close())
			if strings.Contains(failure.Error(), "Address already in use") {
				continue
			}
			return "", 0, failure
		}
		s.owned(p)
		scheme := "http://"
		if strings.Contains(options, "ssl") {
			scheme = "https://"
		}
		return scheme + address + "/mcp", p.PID, nil
	}
	return "", 0, errors.New("nginx found no free port in five attempts")
}

// freePort returns a loopback address on which nobody listens.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", anyPort)
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// awaitPort waits until a process accepts connections.
func awaitPort(ctx context.Context, p *process, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s accepts no connection after %s", address, readyTimeout)
		case <-p.done:
			return errors.New("the process ended before it accepted connections")
		case <-poll.C:
		}
		var dialer net.Dialer
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return conn.Close()
		}
	}
}

var nginxVersionLine = regexp.MustCompile(`nginx/(\S+)`)

// nginxVersion returns the version of an nginx binary, "" if it cannot be run.
func nginxVersion(binary string) string {
	out, _ := exec.Command(binary, "-v").CombinedOutput()
	if m := nginxVersionLine.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}

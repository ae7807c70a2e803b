{{- define "mcp-gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mcp-gateway.fullname" -}}
{{- $name := include "mcp-gateway.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "mcp-gateway.selector" -}}
app.kubernetes.io/name: {{ include "mcp-gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mcp-gateway.labels" -}}
{{ include "mcp-gateway.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mcp-gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "mcp-gateway.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "mcp-gateway.configMapName" -}}
{{- default (include "mcp-gateway.fullname" .) .Values.existingConfigMap }}
{{- end }}

{{/* gateway.yaml: the defaults for a pod, overridden by config. Without authentication,
allowed_hosts has the names of the Service and the routes. */}}
{{- define "mcp-gateway.config" -}}
{{- $base := dict "listen" "0.0.0.0:8080" "admin" (dict "listen" "0.0.0.0:9090") "drain_timeout" "20s" }}
{{- if .Values.persistence.enabled }}{{ $_ := set $base "state_dir" "/var/lib/mcpgateway-state" }}{{ end }}
{{- if .Values.redis.enabled }}{{ $_ := set $base "store" (dict "kind" "redis" "url" (printf "redis://%s-redis:6379" (include "mcp-gateway.fullname" .))) }}{{ end }}
{{- $config := mustMergeOverwrite $base (deepCopy .Values.config) }}
{{- if and (dig "auth" "insecure" false $config) (not (get $config "allowed_hosts")) }}
{{- $name := include "mcp-gateway.fullname" . }}
{{- $inside := printf "%s.%s" $name .Release.Namespace }}
{{- $hosts := list $name $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside) }}
{{- if and .Values.ingress.enabled .Values.ingress.host }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end }}
{{- if .Values.httpRoute.enabled }}{{ $hosts = concat $hosts .Values.httpRoute.hostnames }}{{ end }}
{{- $_ := set $config "allowed_hosts" $hosts }}
{{- end }}
{{- $config | toYaml }}
{{- end }}

{{/* The MCP servers of config, under whichever name it has for them, in YAML. */}}
{{- define "mcp-gateway.upstreams" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- merge (dict) (get $config "upstreams" | default dict) (get $config "mcpServers" | default dict) (get $config "servers" | default dict) | toYaml }}
{{- end }}

{{/* Whether the gateway itself serves TLS. */}}
{{- define "mcp-gateway.tls" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- if dig "tls" "cert" "" $config }}true{{ end }}
{{- end }}

{{/* Whether replicas share a store. */}}
{{- define "mcp-gateway.store" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- if eq (dig "store" "kind" "memory" $config) "redis" }}true{{ end }}
{{- end }}

{{/* The port at the end of an address. */}}
{{- define "mcp-gateway.portOf" -}}
{{- $port := regexFind "[0-9]+$" . }}
{{- if not $port }}{{ fail (printf "the address %q has no port: write it as 0.0.0.0:8080" .) }}{{ end }}
{{- $port }}
{{- end }}

{{- define "mcp-gateway.mcpPort" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- include "mcp-gateway.portOf" $config.listen }}
{{- end }}

{{- define "mcp-gateway.adminPort" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- include "mcp-gateway.portOf" $config.admin.listen }}
{{- end }}

{{/* A duration of gateway.yaml (1m30s) in whole seconds, rounded up. */}}
{{- define "mcp-gateway.seconds" -}}
{{- $rest := . }}
{{- $total := 0.0 }}
{{- range $part := regexFindAll "[0-9.]+(ns|us|µs|ms|s|m|h)" . -1 }}
{{- $number := regexFind "^[0-9.]+" $part | float64 }}
{{- $unit := trimPrefix (regexFind "^[0-9.]+" $part) $part }}
{{- $total = addf $total (mulf $number (get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001) $unit)) }}
{{- $rest = replace $part "" $rest }}
{{- end }}
{{- if or $rest (eq . "") }}{{ fail (printf "drain_timeout %q is no duration: write it as 20s or 1m30s" .) }}{{ end }}
{{- ceil $total | int }}
{{- end }}

{{- define "mcp-gateway.gracePeriod" -}}
{{- if not .Values.terminationGracePeriodSeconds }}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- add (int .Values.preStopSeconds) (include "mcp-gateway.seconds" (toString $config.drain_timeout) | int) 10 }}
{{- else }}
{{- .Values.terminationGracePeriodSeconds | int }}
{{- end }}
{{- end }}

{{/* The ports that the gateway connects to, as a list in YAML. */}}
{{- define "mcp-gateway.egressPorts" -}}
{{- $ports := dict }}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- $urls := list }}
{{- range $upstream := include "mcp-gateway.upstreams" . | fromYaml }}
{{- if get $upstream "command" }}
{{- /* For the downloads of npx and uvx, and most services that such servers use. */}}
{{- $_ := set $ports "443" true }}
{{- end }}
{{- $urls = concat $urls (list (get $upstream "url") (get $upstream "serverUrl") (get $upstream "httpUrl")) }}
{{- $urls = concat $urls (get $upstream "urls" | default list) }}
{{- $auth := get $upstream "auth" | default dict }}
{{- $urls = concat $urls (list (get $auth "issuer") (get $auth "token_url") (dig "idp" "issuer" "" $auth) (dig "idp" "token_url" "" $auth)) }}
{{- if eq (get $auth "kind") "user" }}
{{- /* The server itself may name its authorization server. */}}
{{- $_ := set $ports "443" true }}
{{- end }}
{{- end }}
{{- range $jwt := dig "auth" "jwt" list $config }}
{{- $urls = concat $urls (list (get $jwt "issuer") (get $jwt "jwks") (get $jwt "discovery")) }}
{{- end }}
{{- range $node := splitList "," (regexFind "^rediss?://[^/?#]+" (dig "store" "url" "" $config)) }}
{{- if $node }}{{ $_ := set $ports (regexFind ":[0-9]+$" $node | trimPrefix ":" | default "6379") true }}{{ end }}
{{- end }}
{{- range $url := $urls }}
{{- $host := regexFind "^https?://[^/?#]+" $url }}
{{- if and $host (not (regexMatch "^https?://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?$" $host)) }}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" }}
{{- $_ := set $ports (default (ternary "443" "80" (hasPrefix "https:" $host)) $port) true }}
{{- end }}
{{- end }}
{{- range .Values.networkPolicy.egress.ports }}
{{- $_ := set $ports (toString (int .)) true }}
{{- end }}
{{- range keys $ports | sortAlpha }}
- {{ . }}
{{- end }}
{{- end }}

{{/* Checks that the schema cannot express. */}}
{{- define "mcp-gateway.check" -}}
{{- $config := include "mcp-gateway.config" . | fromYaml }}
{{- if hasKey $config "Error" }}{{ fail (printf "config: %s" (get $config "Error")) }}{{ end }}
{{- if not .Values.existingConfigMap }}
{{- if not (include "mcp-gateway.upstreams" . | fromYaml) }}
{{- fail "config.upstreams is empty: name at least one MCP server, such as --set config.upstreams.search.url=http://mcp-search:8000/mcp" }}
{{- end }}
{{- $mode := dig "auth" "mode" "none" $config }}
{{- if and (or (eq (toString $mode) "none") (not $mode)) (not (dig "auth" "insecure" false $config)) (not (regexMatch "^(127\\.|localhost:|\\[::1\\])" $config.listen)) }}
{{- fail "config.auth: everyone who can reach the pod could call. Set config.auth.mode (jwt, api-key, mtls), or config.auth.insecure: true if networkPolicy.clients lets in only pods that may call" }}
{{- end }}
{{- end }}
{{- if and (not .Values.existingConfigMap) (include "mcp-gateway.store" .) (not (dig "bridge" "keys" "" $config)) }}
{{- fail "config.bridge.keys is empty: replicas with a store seal what they share. Put a key (openssl rand -base64 32) into a Secret, and name it as in values-oauth.yaml" }}
{{- end }}
{{- if eq (include "mcp-gateway.mcpPort" .) (include "mcp-gateway.adminPort" .) }}
{{- fail "config.listen and config.admin.listen have the same port: give each its own" }}
{{- end }}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\])" $config.admin.listen }}
{{- fail "config.admin.listen is loopback, where probes and Prometheus cannot reach it: use 0.0.0.0:9090; networkPolicy.monitoring restricts who may" }}
{{- end }}
{{- $drain := include "mcp-gateway.seconds" (toString $config.drain_timeout) | int }}
{{- if lt (include "mcp-gateway.gracePeriod" . | int) (add (int .Values.preStopSeconds) $drain | int) }}
{{- fail (printf "terminationGracePeriodSeconds is shorter than preStopSeconds and config.drain_timeout together (%d s): running calls would be cut off" (add (int .Values.preStopSeconds) $drain)) }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- fail "autoscaling.minReplicas is larger than autoscaling.maxReplicas" }}
{{- end }}
{{- if not (dig "requests" "cpu" "" .Values.resources) }}
{{- fail "autoscaling.cpu is a share of resources.requests.cpu, which is not set: set it, or nothing is scaled" }}
{{- end }}
{{- end }}
{{- if and .Values.persistence.enabled (include "mcp-gateway.replicated" .) (not (has "ReadWriteMany" .Values.persistence.accessModes)) }}
{{- fail "persistence.accessModes lacks ReadWriteMany: several replicas share one volume. Add it if your storage class can, or set replicas: 1 and autoscaling.enabled: false" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.host is empty: set it to the host that clients use, as in config.public_url" }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute.parentRefs is empty: name the Gateway that the route belongs to" }}
{{- end }}
{{- end }}

{{- define "mcp-gateway.replicated" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{- define "offsetwatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Room for what is put behind it: -pipeline-maintain, and eleven letters that a CronJob adds. */}}
{{- define "offsetwatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 34 | trimSuffix "-" -}}
{{- else if contains (include "offsetwatch.name" .) .Release.Name -}}
{{- .Release.Name | trunc 34 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "offsetwatch.name" .) | trunc 34 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "offsetwatch.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "offsetwatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "offsetwatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What a selector may say: it can never be changed, so no version is in it. */}}
{{- define "offsetwatch.selector" -}}
app.kubernetes.io/name: {{ include "offsetwatch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "offsetwatch.labels" -}}
{{ include "offsetwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "offsetwatch.metadata" -}}
namespace: {{ include "offsetwatch.namespace" . }}
labels:
  {{- include "offsetwatch.labels" . | nindent 2 }}
{{- end -}}

{{/* (list $ image-of-the-part tag) */}}
{{- define "offsetwatch.image" -}}
{{- $root := index . 0 -}}{{- $own := index . 1 -}}{{- $tag := index . 2 -}}
{{- $common := $root.Values.image -}}
{{- $registry := $root.Values.global.imageRegistry | default $own.registry | default $common.registry -}}
{{- with $registry -}}{{ . }}/{{- end -}}
{{- $own.repository | default $common.repository -}}
{{- if $own.digest -}}@{{ $own.digest }}{{- else -}}:{{ $own.tag | default $tag }}{{- end -}}
{{- end -}}

{{/* --- the configuration ---------------------------------------------------------------------- */}}

{{- define "offsetwatch.secret" -}}
{{- .Values.existingSecret | default (printf "%s-config" (include "offsetwatch.fullname" .)) -}}
{{- end -}}

{{- define "offsetwatch.configPath" -}}
/etc/offsetwatch/{{ if .Values.existingSecret }}{{ .Values.existingSecretKey }}{{ else }}config.yaml{{ end }}
{{- end -}}

{{/* What the chart knows better than people: addresses and folders of the container. */}}
{{- define "offsetwatch.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $own := dict
      "listen" (printf "%s:%v" .Values.listenAddress .Values.containerPort)
      "state_dir" "/var/lib/offsetwatch/state"
      "history" (mergeOverwrite (deepCopy ($config.history | default dict)) (dict "path" "/var/lib/offsetwatch/history")) -}}
{{- if .Values.webConfig -}}{{- $_ := set $own "web_config_file" "web.yaml" -}}{{- end -}}
{{- if and .Values.control.enabled (not $config.control.listen) -}}
{{- $listen := printf "%s:%v" .Values.listenAddress .Values.control.port -}}
{{- $_ := set $own "control" (mergeOverwrite (deepCopy $config.control) (dict "listen" $listen)) -}}
{{- end -}}
{{- toYaml (merge $own $config) -}}
{{- end -}}

{{- define "offsetwatch.strimziNamespaces" -}}
{{- .Values.strimzi.namespaces | default (list (include "offsetwatch.namespace" .)) | uniq | toYaml -}}
{{- end -}}

{{- define "offsetwatch.journal" -}}
{{- if .Values.existingSecret -}}
{{- if .Values.journalInExistingSecret -}}true{{- end -}}
{{- else if dig "remedy" "journal" "kafka" "" .Values.config -}}true{{- end -}}
{{- end -}}

{{/* --- what containers have in common --------------------------------------------------------- */}}

{{- define "offsetwatch.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "offsetwatch.mounts" -}}
- name: config
  mountPath: /etc/offsetwatch
  readOnly: true
{{- range .Values.secretMounts }}
- name: secret-{{ .secretName | trunc 50 | trimSuffix "-" | replace "." "-" }}
  mountPath: /run/secrets/offsetwatch/{{ .secretName }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "offsetwatch.volumes" -}}
- name: config
  secret:
    secretName: {{ include "offsetwatch.secret" . }}
    defaultMode: 0440
{{- range .Values.secretMounts }}
- name: secret-{{ .secretName | trunc 50 | trimSuffix "-" | replace "." "-" }}
  secret:
    secretName: {{ .secretName }}
    defaultMode: 0440
    {{- with .items }}
    items:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (list $ persistence suffix) */}}
{{- define "offsetwatch.claimOrEmpty" -}}
{{- $root := index . 0 -}}{{- $at := index . 1 -}}
{{- if $at.existingClaim -}}
persistentVolumeClaim: {claimName: {{ $at.existingClaim }}}
{{- else if $at.enabled -}}
persistentVolumeClaim: {claimName: {{ include "offsetwatch.fullname" $root }}-{{ index . 2 }}}
{{- else -}}
emptyDir: {}
{{- end -}}
{{- end -}}

{{/* Pods: what is the same for both. (list $ placement, which has nodeSelector, tolerations, affinity) */}}
{{- define "offsetwatch.placement" -}}
{{- $root := index . 0 -}}{{- $own := index . 1 -}}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: {{ $root.Values.terminationGracePeriodSeconds }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- with (get $own $key | default (get $root.Values $key)) }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "offsetwatch.podMetadata" -}}
annotations:
  {{- if not .Values.existingSecret }}
  checksum/config: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}
  {{- end }}
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* --- probes --------------------------------------------------------------------------------- */}}

{{- define "offsetwatch.https" -}}
{{- if .Values.webConfig.tls_server_config -}}https{{- end -}}
{{- end -}}

{{- define "offsetwatch.probesBy" -}}
{{- $asks := or .Values.webConfig.basic_auth_users (hasPrefix "Require" (dig "tls_server_config" "client_auth_type" "" .Values.webConfig)) -}}
{{- if ne .Values.probes.by "auto" -}}{{ .Values.probes.by }}
{{- else if $asks -}}exec
{{- else if include "offsetwatch.https" . -}}https
{{- else -}}http{{- end -}}
{{- end -}}

{{/* (list $ path timing) */}}
{{- define "offsetwatch.probe" -}}
{{- $root := index . 0 -}}{{- $by := include "offsetwatch.probesBy" $root -}}
{{- if eq $by "exec" -}}
exec:
  command: [offsetwatch, healthcheck, --config, {{ include "offsetwatch.configPath" $root }}]
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: http
  scheme: {{ upper $by }}
{{- end }}
{{ toYaml (index . 2) }}
{{- end -}}

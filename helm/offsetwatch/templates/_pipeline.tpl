{{/* The container that runs Spark: (list $ name words). Its /tmp is its own: Spark fills it. */}}
{{- define "offsetwatch.pipeline" -}}
{{- $root := index . 0 -}}{{- $v := $root.Values -}}
- name: {{ index . 1 }}
  image: {{ include "offsetwatch.image" (list $root $v.history.image (printf "%s-pipeline" $root.Chart.AppVersion)) }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  args:
    {{- toYaml (concat (index . 2) (list "--config" (include "offsetwatch.configPath" $root))) | nindent 4 }}
  env:
    {{- include "offsetwatch.env" $root | nindent 4 }}
    {{- with $v.history.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.history.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $v.securityContext | nindent 4 }}
  volumeMounts:
    - name: work
      mountPath: /var/lib/offsetwatch
    - name: history
      mountPath: /var/lib/offsetwatch/history
    - name: history-tmp
      mountPath: /tmp
    {{- include "offsetwatch.mounts" $root | nindent 4 }}
{{- end -}}

{{/* A pod of its own: (list $ words restartPolicy component). */}}
{{- define "offsetwatch.pipelinePod" -}}
{{- $root := index . 0 -}}{{- $v := $root.Values -}}
metadata:
  {{- include "offsetwatch.podMetadata" $root | nindent 2 }}
  labels:
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "offsetwatch.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ index . 3 }}
spec:
  serviceAccountName: {{ include "offsetwatch.serviceAccount" $root }}
  automountServiceAccountToken: {{ kindIs "bool" $v.automountServiceAccountToken | ternary $v.automountServiceAccountToken false }}
  restartPolicy: {{ index . 2 }}
  {{- include "offsetwatch.placement" (list $root $v.history) | nindent 2 }}
  containers:
    {{- include "offsetwatch.pipeline" (list $root "history" (index . 1)) | nindent 4 }}
  volumes:
    - name: history
      {{- include "offsetwatch.claimOrEmpty" (list $root $v.history.persistence "history") | nindent 6 }}
    - name: work
      emptyDir: {}
    - name: history-tmp
      emptyDir: {}
    {{- include "offsetwatch.volumes" $root | nindent 4 }}
{{- end -}}

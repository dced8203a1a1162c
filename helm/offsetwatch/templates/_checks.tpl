{{/* What no schema can say: values that fit each other. All that is wrong is said at once. */}}
{{- define "offsetwatch.checks" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- $remedy := $v.config.remedy | default dict -}}
{{- if $v.existingSecret -}}
  {{- if or $v.config $v.configFiles $v.webConfig -}}
    {{- $wrong = append $wrong "existingSecret: config, configFiles and webConfig belong into it, and are to be empty here" -}}
  {{- end -}}
{{- else -}}
  {{- if not $v.config.kafka -}}
    {{- $wrong = append $wrong "config.kafka: name at least one Kafka cluster, or an existingSecret that does" -}}
  {{- end -}}
  {{- if not $v.config.connect -}}
    {{- $wrong = append $wrong "config.connect: name at least one Connect cluster" -}}
  {{- end -}}
  {{- if and $v.control.enabled (not $v.config.control) -}}
    {{- $wrong = append $wrong "control.enabled: config.control has to say who may do what" -}}
  {{- end -}}
  {{- range $name := list "listen" "state_dir" "web_config_file" -}}
    {{- if hasKey $v.config $name -}}
      {{- $wrong = append $wrong (printf "config.%s: is set by the chart (listenAddress, containerPort, persistence, webConfig)" $name) -}}
    {{- end -}}
  {{- end -}}
  {{- if dig "history" "path" "" $v.config -}}
    {{- $wrong = append $wrong "config.history.path: is set by the chart (history.persistence)" -}}
  {{- end -}}
  {{- $control := $v.config.control | default dict -}}
  {{- if and $v.control.enabled $v.config.control (not $control.web_config_file) -}}
    {{- $wrong = append $wrong "config.control: needs a web_config_file with TLS beyond the pod itself" -}}
  {{- end -}}
  {{- if and (eq (include "offsetwatch.probesBy" .) "exec") $v.webConfig (not $v.config.own_access) -}}
    {{- $wrong = append $wrong "config.own_access: has to say how probes are let in where webConfig asks for passwords or certificates" -}}
  {{- end -}}
  {{- with dig "control" "listen" "" $v.config -}}
    {{- if and $v.control.enabled (not (hasSuffix (printf ":%v" $v.control.port) .)) -}}
      {{- $wrong = append $wrong "config.control.listen: leave it out, or name the port control.port" -}}
    {{- end -}}
  {{- end -}}
  {{- range $name := list "config.yaml" "web.yaml" -}}
    {{- if hasKey $v.configFiles $name -}}
      {{- $wrong = append $wrong (printf "configFiles: %s is made by the chart" $name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and (not (include "offsetwatch.journal" .)) (ne ($v.strategy.type | default "Recreate") "Recreate") -}}
  {{- $wrong = append $wrong (printf "strategy.type: %s lets two daemons overlap, which needs a journal that both share (config.remedy.journal.kafka)" $v.strategy.type) -}}
{{- end -}}
{{- if gt (int $v.replicaCount) 1 -}}
  {{- if not (include "offsetwatch.journal" .) -}}
    {{- $wrong = append $wrong "replicaCount: more than one needs a journal that all share (config.remedy.journal.kafka); without it each would act and notify by itself" -}}
  {{- end -}}
  {{- if or $v.persistence.enabled $v.persistence.existingClaim -}}
    {{- $wrong = append $wrong "replicaCount: one volume is of one daemon; with a journal in Kafka persistence is not needed" -}}
  {{- end -}}
  {{- if and $v.history.enabled (eq $v.history.mode "sidecar") -}}
    {{- $wrong = append $wrong "replicaCount: history.mode sidecar would run one pipeline for each; use deployment or cronjob" -}}
  {{- end -}}
{{- end -}}
{{- if and (has ($remedy.mode | default "observe") (list "propose" "auto")) (not (include "offsetwatch.journal" .)) (not (or $v.persistence.enabled $v.persistence.existingClaim)) -}}
  {{- $wrong = append $wrong (printf "config.remedy.mode: %s needs a journal that outlives the pod: persistence.enabled, or config.remedy.journal" $remedy.mode) -}}
{{- end -}}
{{- if and $v.history.enabled (ne $v.history.mode "sidecar") $v.history.shared -}}
  {{- $at := $v.history.persistence -}}
  {{- if and (not $at.existingClaim) (not (and $at.enabled (has "ReadWriteMany" $at.accessModes))) -}}
    {{- $wrong = append $wrong (printf "history.mode: %s shares its tables with another pod, which needs ReadWriteMany in history.persistence.accessModes; or set history.shared to false" $v.history.mode) -}}
  {{- end -}}
{{- end -}}
{{- if and $v.history.enabled (eq $v.history.mode "cronjob") (not $v.history.persistence.enabled) (not $v.history.persistence.existingClaim) -}}
  {{- $wrong = append $wrong "history.mode: cronjob needs history.persistence, or each run would start without the earlier tables" -}}
{{- end -}}
{{- if and (or $v.strimzi.offsets.enabled $v.strimzi.secretNames) (not $v.strimzi.enabled) -}}
  {{- $wrong = append $wrong "strimzi.enabled: is required for strimzi.offsets and strimzi.secretNames" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $v.podMonitor.enabled -}}
  {{- $wrong = append $wrong "podMonitor.enabled: with serviceMonitor.enabled everything would be scraped twice" -}}
{{- end -}}
{{- with $wrong -}}
{{- fail (printf "\n  - %s" (join "\n  - " .)) -}}
{{- end -}}
{{- end -}}

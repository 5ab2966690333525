{{/* Rights of the operator in namespaces with jobs. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [patch]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers]  # for blockOwnerDeletion, if the server checks it
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch, create, update]
- apiGroups: [""]
  resources: [secrets]  # keys of the jobs; the operator cannot read them
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- $groups := dict "Kubernetes" "scheduling.k8s.io" "Coscheduling" "scheduling.x-k8s.io" "Volcano" "scheduling.volcano.sh" }}
{{- range .Values.gangScheduling }}
- apiGroups: [{{ get $groups . }}]
  resources: [podgroups]
  verbs: [get, create, delete]
{{- end }}
{{- end -}}

{{/* Rights on the Lease of this name, which claims the jobs for the operator. */}}
{{- define "lockstep.claimRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
{{- end -}}

{{/* Rights in the operator's own namespace: its Lease, and the only Secret that it reads.
Rights that the rules for jobs give there are left out. */}}
{{- define "lockstep.ownRules" -}}
{{- $jobsHere := has .Release.Namespace .Values.watchNamespaces -}}
{{- if and .Values.watchNamespaces (not $jobsHere) -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]  # lockstep-master-key
{{ end -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [lockstep-master-key]
  verbs: [get]
{{ if not $jobsHere -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{ end -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "lockstep.operator" . }}]
  verbs: [get, update]
{{- end -}}

{{/* Of the container that keeps the pages of finished jobs: it reads, and changes nothing. */}}
{{- define "lockstep.keeperRules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list]
{{- end -}}

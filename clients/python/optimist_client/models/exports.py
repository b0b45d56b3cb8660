"""All the models, which `optimist_client.models` exports."""

from optimist_client.config import ExperimentConfig
from optimist_client.models.anomalies import AnomalousBatch
from optimist_client.models.audits import (
    Audit,
    AuditAnswer,
    AuditComment,
    AuditCounts,
    AuditPrompt,
    AuditReply,
    AuditRequest,
    Audits,
    AuditSample,
    RaterCount,
)
from optimist_client.models.basis import Basis
from optimist_client.models.contrasts import Contrast
from optimist_client.models.decisions import AnomalousBatches, DecisionInfo, HardestRival, LimitVerdict, Verdict
from optimist_client.models.experiments import (
    Experiment,
    ExperimentChange,
    GeneratorChange,
    GeneratorRequest,
    GeneratorState,
    ReferenceInfo,
    State,
)
from optimist_client.models.gates import Gate
from optimist_client.models.mixtures import Blend, BlendRequest, Mixture, MixtureWeight
from optimist_client.models.modes import ModeInfo, Modes, PromptGroupInfo, Shown
from optimist_client.models.pages import ExperimentPage, ReferencePage, Rival, Summary
from optimist_client.models.picks import AskReply, AskRequest, Pick, TellAllReply, TellReply
from optimist_client.models.previews import NewPreview, PreviewInfo, PreviewReply, PreviewRequest, Previews
from optimist_client.models.progress import Curve, GeneratorProgress, MixtureCurve, OpenPickInfo, Progress, RouteCurve
from optimist_client.models.ranks import Rank, Ranking
from optimist_client.models.records import SampleRecord
from optimist_client.models.reports import Failure, Regret, Report
from optimist_client.models.retractions import (
    Acceptance,
    AcceptanceRequest,
    AcceptReply,
    CorrectionRequest,
    NamedBatch,
    RetractedBatch,
    Retraction,
    RetractionRequest,
    RetractReply,
)
from optimist_client.models.routes import RoutePace, Routes, RouteSavings, RouteScore, RouteShare, RouteType
from optimist_client.models.service import Role, Session, Share, ShareRequest, Shares
from optimist_client.models.standings import AnswersChanged, Standing
from optimist_client.models.waits import WaitReason
from optimist_client.models.watched import WatchedReport
from optimist_client.models.webhooks import MessageInfo, WebhookInfo, WebhookRequest
from optimist_client.problem import Problem
from optimist_client.wire import Identifier

__all__ = [
    "AcceptReply",
    "Acceptance",
    "AcceptanceRequest",
    "AnomalousBatch",
    "AnomalousBatches",
    "AnswersChanged",
    "AskReply",
    "AskRequest",
    "Audit",
    "AuditAnswer",
    "AuditComment",
    "AuditCounts",
    "AuditPrompt",
    "AuditReply",
    "AuditRequest",
    "AuditSample",
    "Audits",
    "Basis",
    "Blend",
    "BlendRequest",
    "Contrast",
    "CorrectionRequest",
    "Curve",
    "DecisionInfo",
    "Experiment",
    "ExperimentChange",
    "ExperimentConfig",
    "ExperimentPage",
    "Failure",
    "Gate",
    "GeneratorChange",
    "GeneratorProgress",
    "GeneratorRequest",
    "GeneratorState",
    "HardestRival",
    "Identifier",
    "LimitVerdict",
    "MessageInfo",
    "Mixture",
    "MixtureCurve",
    "MixtureWeight",
    "ModeInfo",
    "Modes",
    "NamedBatch",
    "NewPreview",
    "OpenPickInfo",
    "Pick",
    "PreviewInfo",
    "PreviewReply",
    "PreviewRequest",
    "Previews",
    "Problem",
    "Progress",
    "PromptGroupInfo",
    "Rank",
    "Ranking",
    "RaterCount",
    "ReferenceInfo",
    "ReferencePage",
    "Regret",
    "Report",
    "RetractReply",
    "RetractedBatch",
    "Retraction",
    "RetractionRequest",
    "Rival",
    "Role",
    "RouteCurve",
    "RoutePace",
    "RouteSavings",
    "RouteScore",
    "RouteShare",
    "RouteType",
    "Routes",
    "SampleRecord",
    "Session",
    "Share",
    "ShareRequest",
    "Shares",
    "Shown",
    "Standing",
    "State",
    "Summary",
    "TellAllReply",
    "TellReply",
    "Verdict",
    "WaitReason",
    "WatchedReport",
    "WebhookInfo",
    "WebhookRequest",
]

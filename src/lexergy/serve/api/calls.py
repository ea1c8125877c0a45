"""What is answered in one go: scores, detections, candidates weighed."""

from collections.abc import Sequence
from dataclasses import asdict

from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detector
from lexergy.models.joint.reranking import Reranked
from lexergy.models.scoring.scorer import TextScorer
from lexergy.serve.api import answers
from lexergy.serve.api.replies import finite, weighed


def score_texts(scorer: TextScorer, texts: Sequence[str]) -> list[answers.ScoredText]:
    return [
        answers.ScoredText(
            log_score=score.log_score,
            num_tokens=len(score.log_scores),
            num_pieces=score.num_pieces,
            tokens=[
                answers.ScoredToken(text=text[start:end], start=start, end=end, log_score=value)
                for (start, end), value in zip(score.spans, score.log_scores, strict=True)
            ],
        )
        for text, score in zip(texts, scorer.score(texts), strict=True)
    ]


def detect_texts(
    detector: Detector, texts: Sequence[str], prior: float
) -> list[answers.DetectedText | answers.Unjudged]:
    return [
        answers.Unjudged(error=str(judged))
        if isinstance(judged, LexergyError)
        else answers.DetectedText.model_validate(asdict(judged))
        for judged in detector.detect(texts, prior=prior)
    ]


def reranked(model: str, result: Reranked, seed: int) -> answers.RerankAnswer:
    return answers.RerankAnswer(
        model=model,
        candidates=[weighed(candidate) for candidate in result.candidates],
        best=result.best,
        drawn=result.drawn,
        seed=seed,
        ess=result.ess,
        pareto_k=finite(result.pareto_k),
        warnings=list(result.warnings),
    )
